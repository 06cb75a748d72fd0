"""Clusters as far as one machine shows them: local ones, job scripts, what is sent to Kubernetes, and errors."""

import functools
import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
import jsonschema
import pytest
import yaml
from dask_kubernetes import operator
from distributed import Client

from pbdist.errors import InvalidInputError, MissingDependencyError
from pbdist.run.cluster_profile import (
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    Profile,
    SlurmProfile,
    load_profile,
)
from pbdist.run.clusters import start as clusters
from pbdist.run.clusters.jobqueue import job_class, job_queue_cluster
from pbdist.run.clusters.kubernetes import cluster_specification
from pbdist.run.clusters.start import WORKER_ENVIRONMENT, start_cluster
from tests.studies import write_study

pytestmark = pytest.mark.slow

CLUSTER = Path(__file__).parents[3] / "cluster"


def worker_environment() -> dict[str, str]:
    return dict(os.environ)


def shipped(folder: Path, kind: str, **changes: object) -> Any:
    """A shipped profile with changes, read as a user's file is."""
    content = yaml.safe_load((CLUSTER / f"{kind}.yaml").read_text()) | changes
    return load_profile(write_study(folder, yaml.safe_dump(content), f"{kind}.yaml"))


@pytest.mark.slow(reason="starts a cluster of its own")
def test_threads_are_pinned_and_resources_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    # As users start them.
    monkeypatch.setitem(dask.config.config["distributed"]["worker"], "multiprocessing-method", "spawn")
    profile = LocalProfile(workers=1, dashboard_port=0, worker_resources={"gpu": 1}, resources={"gpu": 1})
    with start_cluster(profile) as handle, Client(handle.cluster) as client:
        handle.wait(client)
        assert (handle.workers_wanted, handle.where, handle.resources) == (1, "this machine", {"gpu": 1.0})
        (environment,) = client.run(worker_environment).values()
        assert {name: environment[name] for name in WORKER_ENVIRONMENT} == WORKER_ENVIRONMENT
        assert client.submit(int, "7", resources=handle.resources).result(timeout=240) == 7
        handle.resources = {"gpu": 2.0, "tpu": 1.0}
        with pytest.raises(InvalidInputError) as caught:
            handle.wait(client)
    expected = "resources: expected a worker with gpu: 2, tpu: 1, got 1 with gpu: 1: a task would wait for ever"
    assert str(caught.value) == expected
    assert os.environ["OMP_NUM_THREADS"] == "64"


def test_a_second_close_does_nothing_and_a_closed_cluster_is_told() -> None:
    handle = start_cluster(LocalProfile(workers=1, dashboard_port=0))
    handle.close()
    handle.close()
    with pytest.raises(InvalidInputError, match="expected one that runs, got one that was closed"):
        handle.wait(None)


def _busy_for_ever() -> None:
    while True:
        pass


def test_the_end_of_workers_is_neither_waited_for_nor_told(caplog: pytest.LogCaptureFixture) -> None:
    """As on a machine so busy that they do not end in the seconds that Dask gives them."""
    before = multiprocessing.active_children()
    for error in (None, KeyboardInterrupt()):
        handle = start_cluster(LocalProfile(workers=2, dashboard_port=0))
        with Client(handle.cluster) as client:
            handle.wait(client)
            futures = [client.submit(_busy_for_ever, pure=False) for _ in range(2)]
            while sum(len(keys) for keys in client.processing().values()) < 2:
                time.sleep(0.05)
            assert not any(future.done() for future in futures)
        handle.__exit__(None if error is None else type(error), error, None)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING or one.exc_info]
    assert not [child for child in multiprocessing.active_children() if child not in before and child.is_alive()]


HANDLER = """
import signal
from pbdist.errors import InvalidInputError
from pbdist.run.clusters.start import start_cluster
from pbdist.run.cluster_profile import SlurmProfile

before = signal.getsignal(signal.SIGINT)
try:
    start_cluster(SlurmProfile.model_validate({"workers": 1, "memory": "1GiB", "interface": "none0"}))
except InvalidInputError:
    import dask_jobqueue.runner
    print(signal.getsignal(signal.SIGINT) is before)
"""


def test_a_package_does_not_decide_what_ctrl_c_does() -> None:
    """The import of dask-jobqueue, which a new process does, makes it an end with exit code 0."""
    done = subprocess.run([sys.executable, "-c", HANDLER], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "True\n", done.stderr


def test_an_interrupt_that_a_package_takes_while_it_is_imported_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: sys.exit())\nsignal.raise_signal(signal.SIGINT)"
    )
    (tmp_path / "taking_interrupts.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            clusters._optional("taking_interrupts", "none", "none")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


QUEUES = {"slurm": "#SBATCH ", "pbs": "#PBS ", "sge": "#$ ", "lsf": "#BSUB "}
DIRECTIVES = {
    "slurm": {"-n 1", "--cpus-per-task=2", "--mem=4352M", "-t 02:00:00", "-p q", "-A me"},
    "pbs": {"-l select=1:ncpus=2:mem=4352mb", "-l walltime=02:00:00", "-q q", "-A me"},
    "sge": {"-l mem_free=2176M", "-pe smp 2", "-l h_rt=02:00:00", "-q q", "-P me", "-cwd"},
    "lsf": {"-n 2", '-R "span[hosts=1]"', "-M 4564", "-W 02:00", "-q q", '-P "me"'},
}


@pytest.mark.parametrize("kind", QUEUES)
def test_the_job_script_of_each_batch_system(kind: str, tmp_path: Path) -> None:
    charged = {"account": "me"} if kind in ("slurm", "pbs") else {"project": "me"}
    changes: dict[str, object] = {"workers_per_job": 2, "memory": "2GiB", "queue": "q", **charged}
    changes |= {"log_directory": str(tmp_path / "logs"), "interface": "lo", "dashboard_port": 0}
    changes |= {"prologue": ["module load python"], "worker_resources": {"gpu": 2}, "python": "/opt/my python"}
    profile = shipped(tmp_path, kind, **changes)
    assert isinstance(profile, JobQueueProfile)
    with job_queue_cluster(profile) as cluster:
        lines = cluster.job_script().splitlines()
    marked = {line.removeprefix(QUEUES[kind]) for line in lines if line.startswith(QUEUES[kind])}
    assert marked >= DIRECTIVES[kind]
    assert any(str(tmp_path / "logs") in line for line in marked)
    exports = [line for line in lines if line.startswith("export ")]
    assert exports == [f"export {name}={value}" for name, value in WORKER_ENVIRONMENT.items()]
    # The user's lines may set numbers of threads, and must not win.
    assert lines.index("module load python") < lines.index(exports[0])
    (command,) = (line for line in lines if "dask_worker" in line)
    assert command.startswith("'/opt/my python' -m distributed.cli.dask_worker tcp://127.0.0.1:")
    options = dict(re.findall(r"(--[a-z-]+) ([^- ]\S*)", command))
    wanted = {"--nthreads": "1", "--nworkers": "2", "--memory-limit": str(2 * 2**30), "--resources": "gpu=2"}
    assert wanted.items() <= options.items()
    assert options["--interface"] == "lo"


@pytest.mark.parametrize(
    ("kind", "code", "text", "ended"),
    [
        ("slurm", 0, "PENDING\n", False),
        ("slurm", 0, "RUNNING\n", False),
        ("slurm", 0, "CANCELLED\n", True),
        ("slurm", 1, "slurm_load_jobs error: Invalid job id specified\n", True),
        ("slurm", 1, "slurm_load_jobs error: Unable to contact slurm controller\n", False),
        ("pbs", 0, "1.host pbdist me 0 Q q\n", False),
        ("pbs", 153, "qstat: Unknown Job Id 1.host\n", True),
        ("pbs", 35, "qstat: 1.host Job has finished, use -x or -H\n", True),
        ("pbs", 1, "qstat: cannot connect to server\n", False),
        ("sge", 0, "job_number: 1\n", False),
        ("sge", 1, "Following jobs do not exist: \n1\n", True),
        ("lsf", 0, "PEND\n", False),
        ("lsf", 0, "EXIT\n", True),
        ("lsf", 255, "Job <1> is not found\n", True),
    ],
)
def test_what_a_batch_system_says_of_a_job(kind: str, code: int, text: str, ended: bool, tmp_path: Path) -> None:
    assert job_class(shipped(tmp_path, kind)).says_ended(code, text) is ended


def test_a_job_that_the_queue_never_starts_is_waited_for_as_long_as_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"qsub": "echo 7.fake", "qdel": f"echo $1 >> {tmp_path}/deleted", "qstat": "echo Q"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    profile = shipped(tmp_path, "pbs", start_timeout=2, workers=1, dashboard_port=0, log_directory=str(tmp_path))
    began = time.monotonic()
    with start_cluster(profile) as handle, Client(handle.cluster) as client:
        end = began + 240
        while not any(job.job_id for job in handle.cluster.workers.values()):
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(InvalidInputError, match=r"expected a worker from 1 PBS job \(7\) within 2 s, got none"):
            handle.wait(client)
        # Still in memory when the cluster ends, which must not fail on it.
        jobs = list(handle.cluster.workers.values())
    assert [job.status.name for job in jobs] == ["closed"]
    assert time.monotonic() - began >= 2
    assert (tmp_path / "deleted").read_text() == "7\n"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages = {"slurm": ("dask_jobqueue", "jobqueue"), "ssh": ("asyncssh", "ssh")}
    packages |= {"kubernetes": ("dask_kubernetes", "kubernetes")}
    for kind, (package, extra) in packages.items():
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(
            sys.modules, f"pbdist.run.clusters.{'jobqueue' if kind == 'slurm' else kind}", raising=False
        )
        monkeypatch.setitem(sys.modules, package, None)
        profile: Profile = shipped(tmp_path, kind)
        with pytest.raises(MissingDependencyError, match=rf"{package}.*pip install 'pbdist\[{extra}\]'"):
            start_cluster(profile)


def test_a_network_interface_that_is_not_there() -> None:
    profile = SlurmProfile.model_validate({"workers": 1, "memory": "1GiB", "interface": "none0"})
    with pytest.raises(InvalidInputError, match=r"expected a profile that starts, got .*none0"):
        start_cluster(profile)


@functools.cache
def kubernetes_schema() -> Mapping[str, Any]:
    folder = Path(operator.__file__).parent / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
    definition = yaml.load((folder / "daskcluster.yaml").read_text(), yaml.CSafeLoader)
    schema: Mapping[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def closed(schema: Any) -> Any:
    """The schema with no room for keys that it does not name, which Kubernetes would drop in silence."""
    if isinstance(schema, dict):
        inner = {key: closed(value) for key, value in schema.items()}
        if isinstance(inner.get("properties"), dict) and inner.get("type") == "object":
            inner.setdefault("additionalProperties", bool(inner.get("x-kubernetes-preserve-unknown-fields")))
        return inner
    return [closed(one) for one in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("full", [False, True])
def test_what_is_sent_to_kubernetes_is_what_the_operator_takes(full: bool, tmp_path: Path) -> None:
    changes: dict[str, object] = {"claim": "studies", "mount": "/studies", "pull_secret": "registry"}
    changes |= {"secrets": ["aws"], "environment": {"AWS_REGION": "eu"}, "worker_resources": {"gpu": 1}}
    profile = shipped(tmp_path, "kubernetes", **changes if full else {})
    assert isinstance(profile, KubernetesProfile)
    sent = cluster_specification(profile)
    assert (sent["apiVersion"], sent["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    jsonschema.validate(sent["spec"], closed(kubernetes_schema()["properties"]["spec"]))
    (worker,) = sent["spec"]["worker"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in worker["env"]}
    assert WORKER_ENVIRONMENT.items() <= variables.items()
    assert int(worker["resources"]["limits"]["memory"]) > profile.memory
    assert sent["spec"]["worker"]["replicas"] == profile.workers
    if full:
        assert variables["AWS_REGION"] == "eu"
        assert worker["volumeMounts"] == [{"name": "store", "mountPath": "/studies"}]
        assert "gpu=1" in worker["args"]


def test_no_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InvalidInputError, match="cluster: expected a profile that starts, got "):
        start_cluster(shipped(tmp_path, "kubernetes", start_timeout=10))
