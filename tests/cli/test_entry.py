"""The first screen, and what is said of misspelt commands, options and values."""

import re
import shlex
from importlib import metadata

import pytest

from pbdist.cli import main


def test_the_first_screen_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    first = capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == first
    assert all(f"\n  {code}" in first for code in ("  0  ", "  1  ", "  2  ", "130  "))
    # Without looking further down than a small terminal shows.
    head = first.splitlines()[:24]
    tried = [shlex.split(re.split(r"  +", line.strip())[0]) for line in head if line.startswith("  pbdist ")]
    assert [words[1] for words in tried] == ["run", "query", "size"]
    for words in tried:
        # They parse.
        with pytest.raises(SystemExit) as stop:
            main([*words[1:], "--help"])
        assert stop.value.code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plann", "x.yaml"], "did you mean plan?"),
        (["Run", "x.yaml"], "did you mean run?"),
        (["plan", "x.yaml", "--jsno"], "unrecognized arguments: --jsno: did you mean --json?"),
        (["query", "s", "--mechanism", "m", "--compositons", "3"], "did you mean --compositions?"),
        (["query", "s", "--mechanism", "m", "--compositons=3"], "did you mean --compositions?"),
        (["size", "--family", "gausian"], "did you mean Gaussian?"),
        (["completion", "bsh"], "did you mean bash?"),
        (["plan", "x.yaml", "more"], "unrecognized arguments: more"),
        (["xyzzy"], "invalid choice: 'xyzzy'"),
        (["epsilon", "--family", "Gausian"], "did you mean Gaussian?"),
        (["epsilon", "--family", "Laplace", "--sensitivty", "2"], "did you mean --sensitivity?"),
        (["delta", "--family", "Laplace", "--exp-epsilom", "2"], "did you mean --exp-epsilon?"),
        (["delta", "--epsilon", "2", "--exp-epsilon", "2"], "not allowed with argument --epsilon"),
        (["dpsgd", "--epocs", "3"], "unrecognized arguments: --epocs 3: did you mean --epochs?"),
        (["dpsgd", "--noise_multiplier", "1"], "did you mean --noise-multiplier?"),
        (["dpsgd", "--epochs", "3", "--steps", "4"], "not allowed with argument --epochs"),
        (["dpsgd", "--epsilon", "3", "--noise-multiplier", "4"], "not allowed with argument --epsilon"),
    ],
)
def test_misspelt_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    *usage, last = err.splitlines()
    assert usage[0].startswith("usage: pbdist")
    assert words in last
    assert ("did you mean" in last) == ("did you mean" in words)


@pytest.mark.parametrize("command", ["plan", "run", "status", "query", "size", "verify"])
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: pbdist {command} ")
    if command == "run":
        assert all(f"\n  {code}" in told for code in ("  0  ", "  1  ", "  2  ", "130  "))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"pbdist {metadata.version('pbdist')}\n"
