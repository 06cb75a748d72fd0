"""The network policy for Kubernetes lets in who belongs to the cluster, and nobody else.

A misspelt key, which Kubernetes would drop, is found: what it stands for is asked for here.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from dask_kubernetes.operator.controller.controller import (
    build_scheduler_deployment_spec,
    build_worker_deployment_spec,
)

from tests.run.test_clients import CLUSTER, kubernetes_specification


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((CLUSTER / "kubernetes" / name).read_text(encoding="utf-8")))


@pytest.fixture
def policy() -> Any:
    (found,) = documents("network-policy.yaml")
    return found


def test_it_has_the_form_of_a_policy(policy: Any) -> None:
    assert (policy["apiVersion"], policy["kind"]) == ("networking.k8s.io/v1", "NetworkPolicy")
    assert set(policy) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(policy["spec"]) == {"podSelector", "policyTypes", "ingress"}
    for rule in policy["spec"]["ingress"]:
        assert set(rule) == {"from"}
        for peer in rule["from"]:
            assert peer
            assert set(peer) <= {"podSelector", "namespaceSelector"}


def fits(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector of labels alone selects what has these labels; an empty one selects all."""
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def lets_in(policy: Any, pod: Mapping[str, str], namespace: Mapping[str, str] | None = None) -> bool:
    """Whether a pod may connect; `namespace` has the labels of its namespace, if that is another one."""
    for peer in (peer for rule in policy["spec"]["ingress"] for peer in rule["from"]):
        around = peer.get("namespaceSelector")
        same = namespace is None if around is None else fits(around, namespace or {})
        if same and fits(peer.get("podSelector", {}), pod):
            return True
    return False


@pytest.fixture
def pods() -> dict[str, dict[str, str]]:
    """The labels of the pods that Dask's operator makes of the shipped profile."""
    sent = kubernetes_specification()
    name, spec = sent["metadata"]["name"], sent["spec"]
    scheduler = build_scheduler_deployment_spec(name, spec["scheduler"]["spec"], {}, {})
    worker = build_worker_deployment_spec(f"{name}-default", "default", name, "1", spec["worker"]["spec"], {}, {})
    return {what: one["spec"]["template"]["metadata"]["labels"] for what, one in (("s", scheduler), ("w", worker))}


def test_it_protects_all_pods_of_the_shipped_profile(policy: Any, pods: dict[str, dict[str, str]]) -> None:
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    for labels in pods.values():
        assert fits(policy["spec"]["podSelector"], labels)


def test_it_lets_in_who_belongs_to_the_cluster(policy: Any, pods: dict[str, dict[str, str]]) -> None:
    for labels in pods.values():
        assert lets_in(policy, labels)
    (job,) = (one for one in documents("driver.yaml") if one["kind"] == "Job")
    # Kubernetes gives these labels: to the pods of a job, and to a namespace its name.
    assert lets_in(policy, {"batch.kubernetes.io/job-name": job["metadata"]["name"]})
    (operator,) = (one for one in documents("operator.yaml") if one["kind"] == "Deployment")
    around = {"kubernetes.io/metadata.name": operator["metadata"]["namespace"]}
    assert lets_in(policy, operator["spec"]["template"]["metadata"]["labels"], around)


def test_it_lets_nobody_else_in(policy: Any, pods: dict[str, dict[str, str]]) -> None:
    elsewhere = {"kubernetes.io/metadata.name": "elsewhere"}
    assert not lets_in(policy, {})
    assert not lets_in(policy, {"app": "web"})
    assert not lets_in(policy, {"batch.kubernetes.io/job-name": "another"})
    assert not lets_in(policy, {"app": "dask-operator"}, elsewhere)
    for labels in pods.values():
        # The labels are anybody's choice in a namespace of their own.
        assert not lets_in(policy, labels, elsewhere)
        assert not lets_in(policy, {**labels, "dask.org/cluster-name": "another"})
