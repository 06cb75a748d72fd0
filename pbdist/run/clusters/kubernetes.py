"""Start workers in pods, by Dask's operator for Kubernetes."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

from dask_kubernetes.operator import KubeCluster, make_cluster_spec

from pbdist.errors import InvalidInputError
from pbdist.run.cluster_profile import KubernetesProfile
from pbdist.run.clusters.start import WORKER_ENVIRONMENT, Started

#: Memory for the nanny of a pod.
_NANNY_BYTES = 256 * 2**20
_VOLUME = "store"
_CLOSE_SECONDS = 30
_LOOK_SECONDS = 0.1


def cluster_specification(profile: KubernetesProfile) -> dict[str, Any]:
    """Return the ``DaskCluster`` resource of a profile."""
    command = ["dask", "worker", "--nthreads", "1", "--memory-limit", str(profile.memory)]
    if profile.worker_resources:
        amounts = [f"{name}={amount:g}" for name, amount in profile.worker_resources.items()]
        command += ["--resources", ",".join(amounts)]
    specification: dict[str, Any] = make_cluster_spec(
        name=profile.name,
        image=profile.image,
        n_workers=profile.workers,
        worker_command=command,
        idle_timeout=round(profile.idle_timeout),
    )
    worker = specification["spec"]["worker"]["spec"]
    scheduler = specification["spec"]["scheduler"]["spec"]
    # Each container its own list: the scheduler needs neither the threads nor the store.
    worker["containers"][0] |= {
        "env": _variables({**WORKER_ENVIRONMENT, **profile.environment}),
        "envFrom": [{"secretRef": {"name": name}} for name in profile.secrets],
        "resources": _resources(profile.memory + _NANNY_BYTES),
    }
    scheduler["containers"][0] |= {
        "env": _variables(profile.environment),
        "resources": _resources(profile.scheduler_memory),
    }
    if profile.claim is not None:
        worker["volumes"] = [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": profile.claim}}]
        worker["containers"][0]["volumeMounts"] = [{"name": _VOLUME, "mountPath": profile.mount}]
    if profile.pull_secret is not None:
        for pod in (worker, scheduler):
            pod["imagePullSecrets"] = [{"name": profile.pull_secret}]
    return specification


def _variables(variables: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _resources(memory: int) -> dict[str, dict[str, str]]:
    """Request a core and the memory, and limit the memory; a limit of processor time would interrupt the worker."""
    return {"requests": {"cpu": "1", "memory": str(memory)}, "limits": {"memory": str(memory)}}


class _KubernetesStarted(Started):
    def awaited(self) -> str:
        return f"{self.where} (kubectl describe pods -l dask.org/cluster-name={self.cluster.name} tells more)"

    def _end(self, *, soon: bool) -> None:
        if soon:
            super()._end(soon=True)
            return
        with suppress(TimeoutError):
            self.cluster.close(timeout=_CLOSE_SECONDS)


class _Known(KubeCluster):  # type: ignore[misc]  # dask-kubernetes has no types
    """A cluster that is in the list `known` while it still starts."""

    def __init__(self, known: list[Self], **options: Any) -> None:
        known.append(self)
        super().__init__(**options)


def start_kubernetes(profile: KubernetesProfile, given_up: threading.Event) -> Started:
    """Create the ``DaskCluster`` resource of a profile, and wait for its scheduler until `given_up` is set.

    Raises
    ------
    InvalidInputError
        The scheduler does not start in time, or the start was given up.
    """
    known: list[_Known] = []
    errors: list[BaseException] = []

    def make() -> None:
        try:
            _Known(
                known,
                custom_cluster_spec=cluster_specification(profile),
                namespace=profile.namespace,
                resource_timeout=round(profile.start_timeout),
                shutdown_on_close=True,
                quiet=True,
            )
        except BaseException as error:  # noqa: BLE001 -- raised below, in the thread that waits
            errors.append(error)

    # The package waits for some steps without a limit.
    if not _done_within(make, profile.start_timeout, given_up):
        errors.append(
            InvalidInputError(
                f"cluster: expected the scheduler of {profile.name} within {profile.start_timeout:g} s, got none: "
                f"is Dask's operator installed, can {profile.image} be pulled? kubectl get daskclusters,pods tells more"
            )
        )
    if errors:
        for cluster in known:
            _done_within(partial(_removed, cluster), _CLOSE_SECONDS)
        raise errors[0]
    where = f"{profile.workers} pod{'' if profile.workers == 1 else 's'} of Kubernetes"
    return _KubernetesStarted(known[0], profile, profile.workers, where, str(known[0].dashboard_link) or None)


def _removed(cluster: _Known) -> None:
    """Remove what exists of a cluster that did not start."""
    try:
        cluster.close(timeout=_CLOSE_SECONDS)
    except Exception:  # noqa: BLE001, S110 -- the caller raises why it did not start
        pass
    finally:
        # The package would try again when the interpreter ends, with a traceback.
        cluster.shutdown_on_close = False


def _done_within(action: Callable[[], None], seconds: float, given_up: threading.Event | None = None) -> bool:
    """Run `action` in a thread, and return whether it has ended in time; otherwise the thread is left behind."""
    thread = threading.Thread(target=action, name="pbdist-kubernetes", daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end and not (given_up and given_up.is_set()):
        thread.join(min(_LOOK_SECONDS, seconds))
    return not thread.is_alive()
