"""What a cluster profile may say, and what its errors tell."""

from pathlib import Path

import pytest

from pbdist.errors import StudyFileError
from pbdist.run.cluster_profile import (
    JobQueueProfile,
    KubernetesProfile,
    LocalProfile,
    SlurmProfile,
    SshProfile,
    load_profile,
)
from tests.studies import write_study

SHIPPED = Path(__file__).parents[2] / "cluster"

SLURM = "kind: slurm\nworkers: 2\nmemory: 2GiB\n"
SSH = "kind: ssh\nhosts: [a]\nmemory: 2GiB\n"
KUBERNETES = "kind: kubernetes\nimage: pbdist:1\nworkers: 2\nmemory: 2GiB\n"


def test_the_shipped_profile_is_the_default() -> None:
    assert load_profile(SHIPPED / "local.yaml") == LocalProfile()


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_profile_loads_and_has_a_page(path: Path) -> None:
    assert load_profile(path).kind == path.stem
    page = (SHIPPED / f"README-{path.stem}.md").read_text(encoding="utf-8")
    assert f"cluster/{path.name}" in page


def test_sizes_times_and_jobs(tmp_path: Path) -> None:
    text = SLURM.replace("2GiB", "1.5 GB") + "workers_per_job: 3\nwalltime: 1-00:30:00\nstart_timeout: 5\n"
    profile = load_profile(write_study(tmp_path, text.replace("workers: 2", "workers: 7")))
    assert isinstance(profile, SlurmProfile)
    assert isinstance(profile, JobQueueProfile)
    assert (profile.memory, profile.jobs, profile.walltime) == (1_500_000_000, 3, "1-00:30:00")
    assert profile.start_timeout == 5.0
    assert LocalProfile().start_timeout == 60
    assert SlurmProfile(workers=1, memory="1MiB").start_timeout == 300  # type: ignore[arg-type]


def test_defaults_of_the_kinds_that_name_hosts_and_images(tmp_path: Path) -> None:
    ssh = load_profile(write_study(tmp_path, SSH))
    assert isinstance(ssh, SshProfile)
    assert (ssh.hosts, ssh.workers_per_host, ssh.key) == (("a",), 1, None)
    pods = load_profile(write_study(tmp_path, KUBERNETES + "environment: {AWS_REGION: eu}\nresources: {gpu: 1}\n"))
    assert isinstance(pods, KubernetesProfile)
    assert (pods.environment, pods.resources) == ({"AWS_REGION": "eu"}, {"gpu": 1.0})


WANTED = "expected temporary: true, or the files ca, certificate and key, got"
KINDS = "expected one of local, ssh, slurm, pbs, sge, lsf, kubernetes, got"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("kind: nomad\n", 1, f"kind: {KINDS} 'nomad'"),
        ("kind: [local]\n", 1, f"kind: {KINDS} ['local']"),
        ("workers: 2\n", 1, f"kind: {KINDS} nothing: the key is missing"),
        ("kind: local\nworkers: 0\n", 2, "workers: expected auto or an integer from 1"),
        ("kind: local\nworkers: many\n", 2, "workers: expected auto"),
        ("kind: local\nthreads_per_worker: 0\n", 2, "threads_per_worker: expected an integer from 1"),
        ("kind: local\nwokers: 2\n", 2, "wokers: expected one of start_timeout, worker_resources"),
        ("kind: local\ndashboard_port: 70000\n", 2, "dashboard_port: expected a port from 0 to 65535, got 70000"),
        ("kind: local\nmemory_limit: 3\n", 2, "memory_limit: expected a valid string, got 3"),
        ("kind: local\nresources: {gpu: 0}\n", 2, "resources: expected an amount above 0 of gpu, got 0"),
        ("kind: local\nresources: [gpu]\n", 2, "resources: expected a mapping of names to amounts"),
        ("kind: local\nresources: {a b: 1}\n", 2, "resources: expected names of letters, digits"),
        ("kind: local\nstart_timeout: 0\n", 2, "start_timeout: expected a number of seconds above 0"),
        ("[]\n", 1, "expected a mapping"),
        ("kind: slurm\nworkers: 2\n", 1, "memory: expected a value, got nothing: the key is missing"),
        (SLURM.replace("2GiB", "2"), 3, "memory: expected a size such as 2GiB, got 2"),
        (SLURM.replace("2GiB", "2kB"), 3, "memory: expected at least 1MiB, got '2kB'"),
        (SLURM + "walltime: 2h\n", 4, "walltime: expected a time such as 02:00:00, got '2h'"),
        (SLURM + "walltime: 3600\n", 4, "walltime: expected a time such as 02:00:00, got 3600"),
        (SLURM + "queue: 7\n", 4, "queue: expected a text on one line, got 7"),
        (SLURM + "directives: -X\n", 4, "directives: expected a list of texts of one line each"),
        (SLURM + "project: p\n", 4, "project: expected one of"),
        ("kind: lsf\nworkers: 2\nmemory: 2GiB\nmemory_unit: pages\n", 4, "memory_unit: expected 'kb', 'mb'"),
        (SSH.replace("[a]", "[]"), 2, "hosts: expected at least one, got []"),
        (SSH + "port: no\n", 4, "port: expected a port from 0 to 65535, got 'no'"),
        (KUBERNETES + "name: My_Cluster\n", 5, "name: expected at most 32 lower-case letters"),
        (KUBERNETES + "environment: {A: 1}\n", 5, "environment: expected a mapping of names to texts"),
        (KUBERNETES + "claim: study\n", 1, "mount: expected claim and mount together"),
        ("kind: local\nsecurity: true\n", 2, f"security: {WANTED} True"),
        ("kind: local\nsecurity: {}\n", 2, f"security: {WANTED} {{}}"),
        ("kind: local\nsecurity: {ca: a, key: b}\n", 2, f"security.certificate: {WANTED} no certificate"),
        ("kind: local\nsecurity: {temporary: false}\n", 2, "security.temporary: expected true, got False"),
        (
            "kind: local\nsecurity: {temporary: true, ca: a}\n",
            2,
            "security.ca: expected temporary certificates or files",
        ),
        (
            "kind: local\nsecurity: {temporary: true, folder: /}\n",
            2,
            "security.folder: expected one of ca, certificate",
        ),
        ("kind: local\nsecurity: {temporay: true}\n", 2, "got 'temporay': did you mean temporary?"),
        (
            "kind: local\nsecurity: {ca: 1, certificate: b, key: c}\n",
            2,
            "security.ca: expected the path of a file, got 1",
        ),
        (SLURM + "security:\n  temporary: true\n  folder: /none\n", 6, "security.folder: expected a folder that can"),
        ("kind: local\ndashboard: 8787\n", 2, "dashboard: expected true or false, got 8787"),
        ("kind: local\ndashboard_host: a:1\n", 2, "dashboard_host: expected the name or the address of a machine"),
        (
            SLURM + "scheduler_host: 10.0.0.5\nscheduler_interface: lo\n",
            5,
            "expected scheduler_host or scheduler_interface",
        ),
        (KUBERNETES + "security: {temporary: true}\n", 5, "security: expected none: Dask's operator starts"),
        (KUBERNETES + "dashboard_port: 1\n", 5, "dashboard_port: expected one of"),
    ],
)
def test_what_is_wrong_with_a_profile(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write_study(tmp_path, text, "cluster.yaml")
    with pytest.raises(StudyFileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)
