"""The network policy for Kubernetes is one, and lets in who belongs to the cluster, and nobody else.

The schema is that of ``NetworkPolicy`` in networking.k8s.io/v1 as the Kubernetes API reference describes it, with no
room for keys that it does not name: Kubernetes would drop a misspelt one, and the policy would let everybody in.
"""

import copy
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from dask_kubernetes.operator.controller.controller import (
    build_scheduler_deployment_spec,
    build_worker_deployment_spec,
)

from pbdist.run.clusters.kubernetes import cluster_specification
from tests.run.clusters.test_start import CLUSTER, shipped

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def mapping(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


def several(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


EXPRESSION = mapping(
    ("key", "operator"),
    key={"type": "string"},
    operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    values=several({"type": "string"}),
)
SELECTOR = mapping(matchLabels=TEXTS, matchExpressions=several(EXPRESSION))
BLOCK = mapping(("cidr",), cidr={"type": "string"}, **{"except": several({"type": "string"})})
PORT = mapping(
    port={"type": ["integer", "string"]},
    endPort={"type": "integer"},
    protocol={"enum": ["TCP", "UDP", "SCTP"]},
)
PEER = {**mapping(podSelector=SELECTOR, namespaceSelector=SELECTOR, ipBlock=BLOCK), "minProperties": 1}
POLICY = mapping(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "networking.k8s.io/v1"},
    kind={"const": "NetworkPolicy"},
    metadata=mapping(("name",), name={"type": "string"}, namespace={"type": "string"}, labels=TEXTS, annotations=TEXTS),
    spec=mapping(
        ("podSelector", "policyTypes", "ingress"),
        podSelector=SELECTOR,
        policyTypes=several({"enum": ["Ingress", "Egress"]}),
        ingress=several(mapping(("from",), ports=several(PORT), **{"from": {**several(PEER), "minItems": 1}})),
        egress=several(mapping(ports=several(PORT), to=several(PEER))),
    ),
)


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((CLUSTER / "kubernetes" / name).read_text(encoding="utf-8")))


@pytest.fixture
def policy() -> Any:
    (found,) = documents("network-policy.yaml")
    return found


def test_it_has_the_form_of_a_policy(policy: Any) -> None:
    jsonschema.validate(policy, POLICY)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (("spec",), "ingress", "Ingress"),
        (("spec",), "podSelector", "podselector"),
        (("spec", "podSelector"), "matchLabels", "labels"),
        (("spec", "ingress", 0), "from", "From"),
        (("spec", "ingress", 0, "from", 2), "namespaceSelector", "namespace"),
    ],
)
def test_a_misspelt_key_would_be_found(path: tuple[Any, ...], old: str, new: str, policy: Any) -> None:
    changed = inner = copy.deepcopy(policy)
    for step in path:
        inner = inner[step]
    inner[new] = inner.pop(old)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, POLICY)


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
def pods(tmp_path: Any) -> dict[str, dict[str, str]]:
    """The labels of the pods that Dask's operator makes of the shipped profile."""
    sent = cluster_specification(shipped(tmp_path, "kubernetes"))
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
