"""The first screen, the help of each command, and what is said of misspelt commands, options and values."""

import re
import shlex
from importlib import metadata

import click
import pytest

from pbdist.cli import main
from pbdist.cli.entry import commands
from pbdist.cli.parser import Command


def test_the_first_screen_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    first = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == first
    assert all(f"\n    {code}" in first for code in ("  0  ", "  1  ", "  2  ", "130  "))
    # Without looking further down than a small terminal shows.
    head = first.splitlines()[:24]
    tried = [shlex.split(re.split(r"  +", line.strip())[0]) for line in head if line.startswith("    pbdist ")]
    assert [words[1] for words in tried] == ["run", "query", "size"]
    for words in tried:
        # They parse.
        assert main([*words[1:], "--help"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plann", "x.yaml"], "No such command 'plann'. Did you mean 'plan'? (see pbdist --help)"),
        (["Run", "x.yaml"], "Did you mean 'run'?"),
        (["xyzzy"], "No such command 'xyzzy'. (see pbdist --help)"),
        (["plan", "x.yaml", "--jsno"], "No such option '--jsno'. (Did you mean one of: '--json'"),
        (["query", "s", "--mechanism", "m", "--compositons", "3"], "'--compositions'"),
        (["query", "s", "--mechanism", "m", "--compositons=3"], "'--compositions'"),
        (["size", "--family", "gausian"], "did you mean Gaussian?"),
        (
            ["plot", "noize", "s.zarr", "-o", "a.svg"],
            "KIND: expected a known name, got 'noize': did you mean noise? (see pbdist plot --help)",
        ),
        (["plan", "x.yaml", "more"], "Got unexpected extra argument (more) (see pbdist plan --help)"),
        (["epsilon", "--family", "Gausian"], "did you mean Gaussian?"),
        (["epsilon", "--family", "Laplace", "--sensitivty", "2"], "'--sensitivity'"),
        (["delta", "--family", "Laplace", "--exp-epsilom", "2"], "'--exp-epsilon'"),
        (["query", "s", "--epsilon", "2", "--exp-epsilon", "2"], "--exp-epsilon: cannot be combined with --epsilon"),
        (["dpsgd", "--noise_multiplier", "1"], "Did you mean '--noise-multiplier'?"),
        # No option is abbreviated.
        (["dpsgd", "--noise", ".9"], "No such option '--noise'."),
        (["dpsgd", "--examples", "9", "--epochs", "3", "--steps", "4"], "--steps: cannot be combined with --epochs"),
        (["dpsgd", "--epochs", "--steps", "4"], "--epochs: expected a value, got none"),
        (
            ["size", "--tolerance", "--json"],
            "--tolerance: expected a value, got none",
        ),
        (["dpsgd", "--examples", "6e4"], "--examples: expected a whole number, got '6e4' (see pbdist dpsgd"),
        (["status", "s.zarr", "--json=yes"], "Option '--json' does not take a value."),
        (["status"], "Missing argument 'STORE'."),
        (["plot", "noise", "s.zarr"], "Missing option '-o' / '--output'."),
    ],
)
def test_misspelt_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("pbdist: error: ")
    assert words in err


@pytest.mark.parametrize("name", commands.commands)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = commands.commands[name]
    assert isinstance(command, Command)
    assert main([name, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"Usage: pbdist {name} ")
    assert f"\n  Example:\n    pbdist {command.example}\n" in told
    # The example parses, and its first sentence is whole in the list of commands.
    example, *words = shlex.split(command.example.partition(" > ")[0])
    assert example == name
    with click.Context(commands, info_name="pbdist") as context:
        assert command.make_context(name, words, parent=context).command is command
    assert not command.get_short_help_str(62).endswith("...")
    if name == "run":
        assert all(f"\n    {code}" in told for code in ("  0  ", "  1  ", "  2  ", "130  "))


def test_options_may_be_repeated_and_negative(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["delta", "--family", "Laplace", "--scale", "3", "--scale=4", "--truncate", "-1e2", "100", "--json"]
    assert main([*given, "--epsilon", "-1", "--compositions", "1"]) == 2
    assert "epsilon: expected finite numbers of at least 0 and at most 1e+150, got -1.0" in capsys.readouterr().err
    assert main([*given, "--epsilon=1", "--compositions", "1", "2"]) == 0
    assert capsys.readouterr().out.count('"delta_upper"') == 4


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pbdist {metadata.version('pbdist')}\n"
