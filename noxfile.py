"""Tasks: `nox -l` lists them, `nox` runs what a change must pass."""

import nox

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
    """The tests that take a second at most."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "not slow and not ci and not nightly and not browser and not opacus", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """All tests that need no cluster, browser or Opacus, with each Python."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in docs/_build; a warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-n", "-b", "html", "docs", "docs/_build", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Tests with schedulers, object stores and killed processes; SLURM and sshd must be installed."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "cluster", "-n", "0", *session.posargs)


@nox.session
def opacus(session: nox.Session) -> None:
    """A model trained with Opacus and our accountant."""
    session.install("torch==2.13.0", "-e", ".[test,opacus]")
    session.run("pytest", "-m", "opacus", "-n", "0", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Times beside other libraries, as docs/benchmarks.md has them."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.benchmarks.report", env={"OPENBLAS_NUM_THREADS": "1"})
