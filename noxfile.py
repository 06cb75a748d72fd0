"""Tasks: `nox -l` lists them, `nox` runs what to run while you edit."""

import os

import nox
from nox.command import CommandFailed

nox.options.sessions = ["lint", "quick"]
nox.options.default_venv_backend = "venv"


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, types, import contracts."""
    session.install("-e", ".[test]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def quick(session: nox.Session) -> None:
    """The default tests without the slow ones: 45 seconds."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "not slow and not ci and not nightly and not browser and not opacus", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """The default tests, with each Python: 8 minutes."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in docs/_build; a warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-n", "-b", "html", "docs", "docs/_build", *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """All tests, the budget of CPU seconds, mutants and benchmarks; with PBDIST_EFFORT=5 before a release."""
    usual, effort = {"PBDIST_EFFORT": "0.3"}, {"PBDIST_EFFORT": os.environ.get("PBDIST_EFFORT", "1")}
    session.install("-e", ".[test,docs,browser]")
    steps: list[tuple[list[str], dict[str, str]]] = [
        (["pytest", "--cpu-budget"], usual),
        (["python", "-m", "tests.mutants"], usual),
        (["pytest", "-m", "not browser and not opacus", "--dist", "worksteal", "--timeout", "7200"], effort),
        (["pytest", "-m", "browser", "-n", "0", "tests/report/explorer/test_browser.py"], {}),
        (["pytest", "-m", "nightly", "-n", "0", "tests/benchmarks"], {}),
    ]
    failed = []
    for command, variables in steps:
        try:
            # What tests need of the machine must be there: SLURM, sshd and Chromium.
            session.run(*command, env={"PBDIST_CI": "1", **variables})
        except CommandFailed:
            failed.append(" ".join(command))
    # Last, for torch brings its own versions of some packages.
    session.notify("opacus")
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def opacus(session: nox.Session) -> None:
    """A model trained with Opacus and our accountant."""
    session.install("torch==2.13.0", "-e", ".[test,opacus]")
    session.run("pytest", "-m", "opacus", "-n", "0", "tests/accounting/test_opacus.py", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Times beside other libraries, as docs/benchmarks.md has them."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.benchmarks.report", env={"OPENBLAS_NUM_THREADS": "1"})
