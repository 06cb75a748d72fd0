"""What a shell is told of commands, options, names and files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pbdist.cli import main
from tests.needs import missing

#: What a shell completes itself.
FILE = "file"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ru"], {"run"}),
        (["run", "qui"], {"quickstart"}),
        (["run", "my"], {FILE}),
        (["plan", "vuv"], {"vuvuzela-conversation", "vuvuzela-dialing"}),
        (["plan", "--j"], {"--json"}),
        (["query", "qu"], {FILE}),
        (["query", "s", "--exp"], {"--exp-epsilon"}),
        (["query", "s", "--scale", "3", "--truncate-l"], {"--truncate-low"}),
        (["new", "x.yaml", "--like", "census"], {"census-2020"}),
        (["new", "x.yaml", "--family", "Disc"], {"DiscreteLaplace", "DiscreteGaussian"}),
        (["size", "--family", "Ga"], {"Gaussian", "GaussianMixture"}),
        (["size", "--system", "vuvuzela-d"], {"vuvuzela-dialing"}),
        (["epsilon", "--family", "Disc"], {"DiscreteLaplace", "DiscreteGaussian"}),
        (["delta", "--fi"], {"--file"}),
        (["delta", "--family", "Histogram", "--file", "x"], {FILE}),
        (["dpsgd", "--noise"], {"--noise-multiplier"}),
        (["run", "x.yaml", "--cluster", "x"], {FILE}),
    ],
)
def test_what_is_proposed(
    words: list[str], expected: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PBDIST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["pbdist", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert main([]) == 0
    rows = [line.split(",", 1) for line in capsys.readouterr().out.split()]
    assert {value if kind == "plain" else kind for kind, value in rows} == expected


@pytest.mark.slow
def test_bash_completes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bash = shutil.which("bash")
    if bash is None:
        missing("bash")
    called = tmp_path / "pbdist"
    called.write_text(f'#!/bin/sh\nexec {sys.executable} -m pbdist "$@"\n', encoding="utf-8")
    called.chmod(0o755)
    program = """
        eval "$(_PBDIST_COMPLETE=bash_source ./pbdist)"
        COMP_WORDS=(pbdist plan vuv); COMP_CWORD=2; COMPREPLY=()
        _pbdist_completion ./pbdist
        printf "%s\\n" "${COMPREPLY[@]}"
    """
    done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == {"vuvuzela-conversation", "vuvuzela-dialing"}, done.stderr
