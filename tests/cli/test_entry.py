"""The first screen, and what is said of misspelt commands, options and values."""

import re
import shlex

import pytest

from pbdist.cli import main


def test_the_first_screen_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    first = capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == first
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


def test_misspelt_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--system", "vuvuzela_dailing"]) == 2
    assert capsys.readouterr().err.endswith("got 'vuvuzela_dailing': did you mean vuvuzela-dialing?\n")
