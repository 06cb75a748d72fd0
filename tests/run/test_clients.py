"""Where workers come from: cluster files, clusters of this machine, running schedulers, and what is wrong with them."""

import functools
import gc
import inspect
import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import dask_jobqueue
import jsonschema
import psutil
import pytest
import yaml
from dask.system import CPU_COUNT
from dask_kubernetes import operator
from dask_kubernetes.operator import KubeCluster, make_cluster_spec
from distributed import Client, LocalCluster, Security, SSHCluster

from pbdist.errors import InvalidInputError, MissingDependencyError, StudyFileError
from pbdist.run import clients, run_study
from pbdist.run.clients import (
    SHELTERED,
    WORKER_ENVIRONMENT,
    Cluster,
    RunningScheduler,
    load_cluster,
    local_cluster,
    start_sheltered,
)
from pbdist.run.dask_executor import DaskExecutor
from pbdist.study import load_study
from pbdist.study.document import read_document
from tests.needs import missing
from tests.run.processes import LIGHT, PATIENCE, run
from tests.run.test_signals import STUDY, others_of, until
from tests.studies import TIGHT, TINY, Finished, results_of, write_study

CLUSTER = Path(__file__).parents[2] / "cluster"
JOBS = "class: dask_jobqueue.SLURMCluster\nscale: 2\noptions: {cores: 1, memory: 1GiB}\n"


def options_of(kind: str) -> dict[str, Any]:
    """The options of a shipped file, as a user's file is read."""
    content: Any = read_document(CLUSTER / f"{kind}.yaml", lambda document: document.data, "cluster")
    return dict(content["options"])


@pytest.mark.parametrize("path", sorted(CLUSTER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_file_loads_and_has_a_page(path: Path) -> None:
    assert isinstance(load_cluster(path), Cluster)
    assert f"cluster/{path.name}" in (CLUSTER / f"README-{path.stem}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[]\n", 1, "expected a mapping with the key class, got []"),
        ("scale: 2\n", 1, "class: expected a value, got nothing: the key is missing"),
        ("class: SLURMCluster\n", 1, "class: expected a class such as dask_jobqueue.SLURMCluster, got 'SLURMCluster'"),
        ("class: [distributed]\n", 1, "class: expected a class such as dask_jobqueue.SLURMCluster"),
        (
            "scale: 2\nclass: dask_jobqueue.SLURMClustr\n",
            2,
            "class: dask_jobqueue has no SLURMClustr: did you mean SLURM",
        ),
        ("class: collections.OrderedDict\n", 1, "class: collections.OrderedDict is no class of Dask clusters"),
        ("class: distributed.Client\n", 1, "class: distributed.Client is no class of Dask clusters"),
        ("class: dask_jobqueue.__version__\n", 1, "class: dask_jobqueue.__version__ is no class of Dask clusters"),
        (
            JOBS + "optons: {}\n",
            4,
            "optons: expected one of class, options, scale, adapt, start_timeout, got an unknown key",
        ),
        (JOBS + "optons: {}\n", 4, "did you mean options?"),
        (JOBS.replace("{cores: 1, memory: 1GiB}", "2"), 3, "options: expected a mapping, got 2"),
        (JOBS.replace("2", "0"), 2, "scale: expected a number of workers, or a mapping such as {jobs: 4}, got 0"),
        (JOBS.replace("2", "many"), 2, "scale: expected a number of workers"),
        (JOBS + "adapt: {maximum: 2}\n", 4, "adapt: give either scale or adapt, not both"),
        (JOBS + "start_timeout: 0\n", 4, "start_timeout: expected a number of seconds above 0, got 0"),
        (JOBS + "start_timeout: soon\n", 4, "start_timeout: expected a number of seconds above 0"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write_study(tmp_path, text, "cluster.yaml")
    with pytest.raises(StudyFileError) as caught:
        load_cluster(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


@pytest.fixture
def half_made() -> Iterator[None]:
    """Dask's own objects that could not be made warn when they are removed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.mark.usefixtures("half_made")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (JOBS.replace("cores", "corse"), 3, "options.corse: SLURMCluster has no such option: did you mean cores?"),
        (JOBS.replace("1GiB", "much"), 3, "options.memory: SLURMCluster does not start: ValueError: "),
        (
            "class: distributed.LocalCluster\noptions: {n_workers: 1, memory_limit: banana}\n",
            2,
            "options.memory_limit: LocalCluster does not start: ValueError: Could not interpret 'banana' as",
        ),
        (JOBS.replace("cores: 1", "cores: 1, interface: none0"), 3, "'none0' is not a valid network interface"),
        (JOBS.replace("scale: 2\n", ""), 1, "scale: say how many workers to start, as in scale: {jobs: 4}"),
        ("class: builtins.dict\noptions: {a: 1}\n", 1, "class: builtins.dict is no class of Dask clusters"),
        ("class: builtins.sorted\n", 1, "options: sorted does not start: TypeError"),
        ("class: builtins.globals\n", 1, "class: globals gives no Dask cluster, but {"),
    ],
)
def test_what_is_wrong_with_a_class_and_its_options(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write_study(tmp_path, text, "cluster.yaml")
    with pytest.raises(StudyFileError) as caught, load_cluster(path).connected(20):
        pass
    told = str(caught.value)
    assert told.startswith(f"{path}:{line}: ")
    assert words in told
    assert "\n" not in told
    assert "--serial" not in told


@pytest.mark.parametrize(
    ("name", "install"),
    [
        ("dask_jobqueue.SLURMCluster", "'pbdist[jobqueue]'"),
        ("dask_kubernetes.operator.KubeCluster", "'pbdist[kubernetes]'"),
        ("dask_nowhere.NoCluster", "dask-nowhere"),
    ],
)
def test_a_package_that_is_not_installed_is_named(
    name: str, install: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = name.partition(".")[0]
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=re.escape(f"pip install {install}")):
        load_cluster(write_study(tmp_path, f"class: {name}\n", "cluster.yaml"))


@pytest.mark.slow
@pytest.mark.usefixtures("half_made")
def test_asyncssh_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[ssh\]'"),
        Cluster(SSHCluster, options_of("ssh")).connected(20),
    ):
        pass


def test_the_memory_of_a_worker_is_known_before_it_starts() -> None:
    assert local_cluster(2, "400MiB").expected_worker_bytes == 400 * 2**20
    (one, four) = (local_cluster(count).expected_worker_bytes for count in (1, 4))
    assert one is not None
    assert four is not None
    assert one // 4 - 1 <= four <= one // 4 + 1
    assert local_cluster(1, "a lot").expected_worker_bytes is None
    assert load_cluster(CLUSTER / "slurm.yaml").expected_worker_bytes == 2 * 2**30
    assert load_cluster(CLUSTER / "kubernetes.yaml").expected_worker_bytes is None
    assert DaskExecutor(scheduler="tcp://127.0.0.1:1").worker_bytes is None


def test_too_little_memory_is_refused_before_workers_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DaskExecutor, "__enter__", lambda _: pytest.fail("workers were started"))
    study, executor = load_study(write_study(tmp_path)), DaskExecutor(local_cluster(1, "1MiB"))
    with pytest.raises(InvalidInputError, match=r"^buckets: 400 buckets in blocks need .* MiB for each task"):
        run_study(study, tmp_path / "s.zarr", executor, lambda _: None)
    assert not (tmp_path / "s.zarr").exists()


def test_too_small_a_limit_of_memory_is_refused_at_its_place_in_the_file(tmp_path: Path) -> None:
    """A process takes 250 MiB before it computes anything: fewer of them, or a larger tolerance, do not help."""
    study = load_study(write_study(tmp_path, TIGHT))
    for limit, also in (("150MiB", ""), ("251MiB", ", or allow a larger tolerance")):
        text = f"class: distributed.LocalCluster\noptions: {{n_workers: 1, memory_limit: {limit}}}\n"
        file = write_study(tmp_path, text, "cluster.yaml")
        with pytest.raises(InvalidInputError) as caught:
            run_study(study, tmp_path / "s.zarr", DaskExecutor(load_cluster(file)), lambda _: None)
        needed = r"memory: a worker needs \d+ MiB and may use \d+ MiB"
        assert re.fullmatch(f"{needed}: {file}:2: options.memory_limit: raise it{also}", str(caught.value))


def test_more_workers_than_start_in_time_are_refused() -> None:
    most = 8 * CPU_COUNT
    assert local_cluster(most)
    with pytest.raises(InvalidInputError, match=rf"^workers: expected at most {most}, 8 for each core .*, got 4096$"):
        local_cluster(4096)


@pytest.mark.slow(reason="starts a cluster of its own")
def test_a_cluster_of_this_machine_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cluster: LocalCluster, timeout: float) -> None:
        raise TimeoutError(f"Timed out trying to connect to {cluster.scheduler_address} after {timeout:g} s")

    monkeypatch.setattr(clients, "Client", refuse)
    before, source = multiprocessing.active_children(), local_cluster(1)
    words = (
        r"^workers: LocalCluster does not start: TimeoutError: .* after 20 s: start fewer workers, or compute without"
    )
    with pytest.raises(InvalidInputError, match=words), source.connected(20):
        pass
    assert not [child for child in multiprocessing.active_children() if child not in before and child.is_alive()]


def worker_environment() -> dict[str, str]:
    return dict(os.environ)


def listening(process: psutil.Process) -> set[str]:
    return {found.laddr[0] for found in process.net_connections("inet") if found.status == psutil.CONN_LISTEN}


@pytest.mark.slow(reason="starts a cluster of its own")
def test_workers_of_this_machine_have_one_thread_and_no_port_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    # As users start them.
    monkeypatch.setitem(dask.config.config["distributed"]["worker"], "multiprocessing-method", "spawn")
    with DaskExecutor(local_cluster(1)) as executor:
        assert executor.workers == "1 worker on this machine"
        assert str(executor.dashboard).startswith("http://127.0.0.1:")
        assert executor.worker_bytes == executor._source.expected_worker_bytes
        (environment,) = executor._client.run(worker_environment).values()
        (worker,) = executor._client.run(os.getpid).values()
        assert listening(psutil.Process()) == listening(psutil.Process(worker)) == {"127.0.0.1"}
    assert {name: environment[name] for name in WORKER_ENVIRONMENT} == WORKER_ENVIRONMENT
    assert os.environ["OMP_NUM_THREADS"] == "64"


def _busy_for_ever() -> None:
    while True:
        pass


@pytest.mark.slow
def test_the_end_of_workers_is_neither_waited_for_nor_told(caplog: pytest.LogCaptureFixture) -> None:
    """As on a machine so busy that they do not end in the seconds that Dask gives them."""
    before, cluster = multiprocessing.active_children(), local_cluster(2)
    with cluster.connected(20) as client:
        futures = [client.submit(_busy_for_ever, pure=False) for _ in range(2)]
        while sum(len(keys) for keys in client.processing().values()) < 2:
            time.sleep(0.05)
        assert not any(future.done() for future in futures)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING or one.exc_info]
    assert not [child for child in multiprocessing.active_children() if child not in before and child.is_alive()]


HANDLER = f"""
import signal
from pbdist.run.clients import load_cluster

before = signal.getsignal(signal.SIGINT)
load_cluster({str(CLUSTER / "slurm.yaml")!r})
import dask_jobqueue.runner
print(signal.getsignal(signal.SIGINT) is before)
"""


@pytest.mark.slow
def test_a_package_does_not_decide_what_ctrl_c_does() -> None:
    """The import of dask-jobqueue, which a new process does, makes it an end with exit code 0."""
    done = subprocess.run([sys.executable, "-c", HANDLER], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "True\n", done.stderr


QUEUES = {"slurm": "#SBATCH ", "pbs": "#PBS ", "sge": "#$ ", "lsf": "#BSUB "}
DIRECTIVES = {
    "slurm": {"-n 1", "--cpus-per-task=2", "--mem=4608M", "-t 02:00:00", "-p q", "-A me"},
    "pbs": {"-l select=1:ncpus=2:mem=4608mb", "-l walltime=02:00:00", "-q q", "-A me"},
    "sge": {"-l mem_free=2304M", "-pe smp 2", "-l h_rt=02:00:00", "-q q", "-P me", "-cwd"},
    "lsf": {"-n 2", '-R "span[hosts=1]"', "-M 4832", "-W 02:00", "-q q", '-P "me"'},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUEUES)
def test_the_job_script_of_each_batch_system(kind: str, tmp_path: Path) -> None:
    charged = {"account": "me"} if kind in ("slurm", "pbs") else {"project": "me"}
    options = options_of(kind) | {"queue": "q", "interface": "lo", "log_directory": str(tmp_path / "logs"), **charged}
    options["scheduler_options"] |= {"dashboard_address": "127.0.0.1:0"}
    make = getattr(dask_jobqueue, f"{kind.upper()}Cluster")
    with make(**options) as cluster:
        lines = cluster.job_script().splitlines()
    marked = {line.removeprefix(QUEUES[kind]) for line in lines if line.startswith(QUEUES[kind])}
    assert marked >= DIRECTIVES[kind]
    assert any(str(tmp_path / "logs") in line for line in marked)
    exports = " ".join(line.removeprefix("export ") for line in lines if line.startswith("export "))
    assert dict(word.split("=") for word in exports.split()) == WORKER_ENVIRONMENT
    (command,) = (line for line in lines if "dask_worker" in line)
    assert f"{sys.executable} -m distributed.cli.dask_worker tcp://127.0.0.1:" in command
    found = dict(re.findall(r"(--[a-z-]+) ([^- ]\S*)", command))
    wanted = {"--nthreads": "1", "--nworkers": "2", "--memory-limit": "2.00GiB", "--interface": "lo"}
    assert wanted.items() <= found.items()


@pytest.mark.slow
def test_a_job_that_the_queue_never_starts_is_waited_for_as_long_as_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"qsub": "echo 7.fake", "qdel": f"echo $1 >> {tmp_path}/deleted"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    content = yaml.safe_load((CLUSTER / "pbs.yaml").read_text()) | {"start_timeout": 2, "scale": {"jobs": 1}}
    content["options"] |= {"log_directory": str(tmp_path), "walltime": "02:00:00"}
    content["options"] |= {"scheduler_options": {"dashboard_address": "127.0.0.1:0"}}
    executor = DaskExecutor(load_cluster(write_study(tmp_path, yaml.safe_dump(content), "cluster.yaml")))
    words = rf"no worker came from PBSCluster within 2 s: jobs 7, output in {tmp_path}$"
    began = time.monotonic()
    with pytest.raises(InvalidInputError, match=words):
        executor.__enter__()
    assert time.monotonic() - began >= 2
    assert (tmp_path / "deleted").read_text() == "7\n"


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


def kubernetes_specification() -> Any:
    """What Dask's class sends to Kubernetes for the shipped file."""
    options = options_of("kubernetes")
    assert set(options) <= set(inspect.signature(KubeCluster).parameters)
    names = set(inspect.signature(make_cluster_spec).parameters)
    return make_cluster_spec(**{name: value for name, value in options.items() if name in names})


@pytest.mark.slow
def test_what_is_sent_to_kubernetes_is_what_the_operator_takes() -> None:
    sent = kubernetes_specification()
    assert (sent["apiVersion"], sent["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    jsonschema.validate(sent["spec"], closed(kubernetes_schema()["properties"]["spec"]))
    (worker,) = sent["spec"]["worker"]["spec"]["containers"]
    assert {one["name"]: one["value"] for one in worker["env"]} == WORKER_ENVIRONMENT
    assert worker["args"][:6] == ["dask", "worker", "--nthreads", "1", "--memory-limit", "2GiB"]
    assert sent["spec"]["worker"]["replicas"] == 8


@pytest.mark.slow
def test_no_kubernetes(tmp_path: Path) -> None:
    path, environment = write_study(tmp_path, LIGHT), os.environ | {"KUBECONFIG": str(tmp_path / "none")}
    done = run(path, tmp_path / "s.zarr", "--cluster", CLUSTER / "kubernetes.yaml", env=environment)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "kubernetes.yaml:9: options: KubeCluster does not start: " in line


@pytest.mark.parametrize("content", ["[" * 200_000, '{"address": ' + "[" * 200_000, '{"address": 5}', "{}", "", "\0"])
def test_a_file_that_has_no_address_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    with pytest.raises(InvalidInputError, match=rf"^--scheduler: (no scheduler answers at )?{file}.+: .+$"):
        RunningScheduler(file).connected(1.0).__enter__()


@pytest.mark.nightly
def test_a_cluster_with_certificates_of_one_run(tmp_path: Path) -> None:
    content = {
        "class": "distributed.LocalCluster",
        "options": {**options_of("local"), "n_workers": 1, "security": True},
    }
    content["options"] |= {"dashboard_address": "127.0.0.1:0"}
    cluster = load_cluster(write_study(tmp_path, yaml.safe_dump(content), "cluster.yaml"))
    with DaskExecutor(cluster) as executor:
        address = executor._client.scheduler.address
        assert address.startswith("tls://")
        with pytest.raises(OSError):  # noqa: PT011 -- the text depends on who closes first
            Client(address, security=Security.temporary(), timeout=3)
        assert [done.result for done in executor.run(abs, [-3])] == [3]


#: Prints the signals that are blocked, and those that are ignored, in a process of its own.
MASKS = """
import json, re
status = open("/proc/self/status").read()
print(json.dumps([int(re.search(name + r":\\s+(\\w+)", status)[1], 16) for name in ("SigBlk", "SigIgn")]))
"""


def test_what_is_started_does_not_get_the_signals_of_the_terminal_and_this_thread_does() -> None:
    handlers = {number: signal.getsignal(number) for number in SHELTERED}

    def start() -> list[int]:
        done = subprocess.run([sys.executable, "-c", MASKS], capture_output=True, text=True, check=True)
        found: list[int] = json.loads(done.stdout)
        return found

    blocked, ignored = start_sheltered(start, lambda _: None)
    for number in SHELTERED:
        assert blocked >> (number - 1) & 1
        # What starts may still decide for itself.
        assert not ignored >> (number - 1) & 1
    assert not SHELTERED & signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert {number: signal.getsignal(number) for number in SHELTERED} == handlers


def test_what_cannot_be_started_is_raised_here() -> None:
    def start() -> None:
        raise ArithmeticError("not this one")

    with pytest.raises(ArithmeticError, match="not this one"):
        start_sheltered(start, lambda _: None)


@pytest.fixture
def interrupts_of_python() -> Iterator[None]:
    """Ctrl-C as Python has it: a package that another test imports may have changed it."""
    # A finalizer would swallow it.
    gc.collect()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts_of_python")
def test_an_interrupt_ends_the_waiting_and_what_was_started() -> None:
    stopped: list[str] = []

    def start() -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.2)
        return "started"

    with pytest.raises(KeyboardInterrupt):
        start_sheltered(start, stopped.append)
    assert stopped == ["started"]


LEAVING = """
import os
from multiprocessing import get_context
from pbdist.run.clients import start_sheltered

if __name__ == "__main__":
    queue = start_sheltered(lambda: get_context("spawn").Queue(), lambda _: None)
    assert "PYTHONWARNINGS" not in os.environ
    os._exit(7)
"""


def program(folder: Path, text: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    (folder / "program.py").write_text(text)
    command = [sys.executable, "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False, **more)


@pytest.mark.slow
def test_what_a_process_leaves_behind_is_removed_without_a_word(tmp_path: Path) -> None:
    """As where an interrupt ends it while queues to its workers are there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    # The tracker has the same stderr, so that its end is waited for too.
    done = program(tmp_path, LEAVING, env=environment)
    assert (done.returncode, done.stderr) == (7, "")


LIBRARY = """
import multiprocessing, signal
from pathlib import Path
from pbdist.run import run_study
from pbdist.run.clients import local_cluster
from pbdist.run.dask_executor import DaskExecutor
from pbdist.study import load_study

if __name__ == "__main__":
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        run_study(load_study(Path("study.yaml")), "s.zarr", DaskExecutor(local_cluster(2)), lambda _: None)
    except KeyboardInterrupt:
        assert not multiprocessing.active_children()
        print("interrupted", flush=True)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
"""


@pytest.mark.nightly
def test_who_calls_it_from_python_gets_the_interrupt_and_keeps_the_handlers(tmp_path: Path) -> None:
    write_study(tmp_path, STUDY)
    (tmp_path / "program.py").write_text(LIBRARY)
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
        # Python's process that cleans up is the first, the workers are the next.
        until(lambda: process.poll() is not None or len(others_of(process.pid)) > 1, "workers that start")
        os.killpg(process.pid, signal.SIGINT)
        told, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert told == "interrupted\n"
    assert "KeyboardInterrupt" not in errors


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_refused_in_one_line(tmp_path: Path) -> None:
    write_study(tmp_path, LIGHT)
    call = 'run_study(load_study(Path("study.yaml")), "s.zarr", DaskExecutor(local_cluster(1)), lambda _: None)\n'
    done = program(tmp_path, LIBRARY.partition("if __name__")[0] + f"def main():\n    {call}\nmain()\n")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pbdist.errors.InvalidInputError: workers: each worker would run ")
    assert "program.py again: compute without workers: --serial (a SerialExecutor), or put what it calls" in last
    assert done.stderr.count("Traceback") == 1
    # The processes of the workers read the file of the main module.
    text = LIBRARY.partition("if __name__")[0] + call
    piped = subprocess.run(
        [sys.executable, "-"], input=text, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    words = "workers: they cannot import <stdin>: write the script to a file, or compute without workers: --serial"
    assert piped.stderr.splitlines()[-1].startswith(f"pbdist.errors.InvalidInputError: {words}")
    assert piped.stderr.count("Traceback") == 1
    guarded = program(tmp_path, LIBRARY.partition("if __name__")[0] + f'if __name__ == "__main__":\n    {call}')
    assert guarded.returncode == 0, guarded.stderr


@pytest.mark.slow
def test_workers_start_from_any_thread_as_in_a_server(finished_store: Finished, tmp_path: Path) -> None:
    study, executor = load_study(write_study(tmp_path)), DaskExecutor(local_cluster(1))
    before = multiprocessing.active_children()
    with ThreadPoolExecutor(1) as server:
        server.submit(run_study, study, tmp_path / "s.zarr", executor, lambda _: None).result(timeout=PATIENCE)
    assert not [child for child in multiprocessing.active_children() if child not in before and child.is_alive()]
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(TINY))


def refusal(path: Path, *before: str, **more: Any) -> str:
    """The one line with which a run on two workers ends, in a shell that does something before."""
    command = f'{"".join(f"{one} && " for one in before)}exec "$@"'
    options = ["run", str(path), "--store", str(path.parent / "s.zarr"), "--workers", "2"]
    shell = [*more.pop("within", []), "sh", "-c", command, "sh"]
    done = subprocess.run(
        [*shell, sys.executable, "-m", "pbdist", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **more,
    )
    if "unshare" in done.stderr:
        missing(f"needs the right to make a namespace: {done.stderr}")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert not (path.parent / "s.zarr").exists()
    return line


@pytest.mark.slow
def test_a_configuration_of_dask_that_cannot_be_read(tmp_path: Path) -> None:
    write_study(tmp_path, "a: [1, 2", "dask.yaml")
    line = refusal(write_study(tmp_path, LIGHT), env=os.environ | {"DASK_CONFIG": str(tmp_path / "dask.yaml")})
    assert "dask.yaml' is malformed" in line
    assert line.endswith(": correct that file, or compute without Dask: --serial")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("namespace", "before", "words"),
    [
        ("--net", "true", "reach each other at 127.0.0.1: switch its loopback interface on, or compute"),
        (
            "--mount",
            "mount -t tmpfs -o ro tmpfs /dev/shm",
            "no shared memory for processes: mount /dev/shm, or make room",
        ),
        (
            "--mount",
            "mount -t tmpfs -o size=4k tmpfs /dev/shm && (yes > /dev/shm/x 2>&- || true)",
            "--serial (No space left on device)",
        ),
    ],
)
def test_a_machine_on_which_no_workers_can_start(namespace: str, before: str, words: str, tmp_path: Path) -> None:
    write_study(tmp_path, LIGHT)
    # The folder may be in the shared memory itself.
    if namespace == "--mount":
        before = f"mount --bind {tmp_path} /mnt && cd /mnt && {before}"
    line = refusal(Path("study.yaml"), before, within=["unshare", namespace], cwd=tmp_path)
    assert line.startswith("pbdist: error: --workers: ")
    assert words in line
    assert "or compute without workers: --serial (" in line


@pytest.mark.slow
def test_the_usual_port_of_the_dashboard_is_in_use() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # Something else is there already.
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with DaskExecutor(local_cluster(1)) as executor:
            assert str(executor.dashboard).startswith("http://127.0.0.1:")
            assert ":8787/" not in str(executor.dashboard)


@pytest.mark.nightly
def test_a_scheduler_with_certificates_from_the_configuration_of_dask(tmp_path: Path, finished_store: Finished) -> None:
    made = Security.temporary().get_tls_config_for_role("client")
    files = {name: write_study(tmp_path, made[name], f"{name}.pem") for name in ("ca_file", "cert", "key")}
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    environment = os.environ | {f"{tls}CA_FILE": str(files["ca_file"])}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        environment |= {f"{tls}{role}__CERT": str(files["cert"]), f"{tls}{role}__KEY": str(files["key"])}
    scheduler = tmp_path / "scheduler.json"
    quiet = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    where = ["--protocol", "tls", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(scheduler), *quiet]
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", *where]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--scheduler-file",
        str(scheduler),
        "--nthreads",
        "1",
    ]
    path, options = write_study(tmp_path, LIGHT), {"env": environment, "stdout": -3, "stderr": -3}
    with subprocess.Popen(dask, **options) as hub:  # type: ignore[call-overload]
        until(scheduler.exists, "the scheduler")
        with subprocess.Popen([*worker, *quiet], **options) as hand:  # type: ignore[call-overload]
            try:
                done = run(path, tmp_path / "s.zarr", "--scheduler", scheduler, env=environment)
                stranger = run(path, tmp_path / "t.zarr", "--scheduler", scheduler)
            finally:
                hand.terminate()
                hand.wait()
                hub.kill()
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(LIGHT))
    assert stranger.returncode == 2
    (line,) = stranger.stderr.splitlines()
    assert "certificates come from Dask's configuration, distributed.comm.tls" in line
