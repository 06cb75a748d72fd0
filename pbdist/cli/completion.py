"""``pbdist completion``: a script that completes commands, options, files and names of studies in a shell.

The script is written once, by shtab, and starts no Python when a key is pressed; argcomplete would at each.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from pbdist.cli.parser import Commands, complete
from pbdist.errors import InvalidInputError, MissingDependencyError

_SHELLS = ("bash", "zsh", "fish", "tcsh")
_ABOUT = """\
Print a script that completes commands, options, files and names of studies. Install it once:

  bash   pbdist completion bash > ~/.local/share/bash-completion/completions/pbdist
  zsh    pbdist completion zsh > DIR/_pbdist, DIR being one of $fpath
  fish   pbdist completion fish > ~/.config/fish/completions/pbdist.fish
  tcsh   pbdist completion tcsh > ~/.pbdist.tcsh, and in ~/.tcshrc: source ~/.pbdist.tcsh

It needs shtab: pip install 'pbdist[completion]'."""
#: What completes the name of a study, or a file, in each shell.
_STUDY_OR_FILE = {"bash": "_pbdist_study", "zsh": "_pbdist_study", "fish": "(_pbdist_study)", "tcsh": "f"}
_PREAMBLE = {
    "bash": """\
_pbdist_study() {{
  compgen -W "{names}" -- "$1"
  compgen -f -- "$1"
}}
""",
    "zsh": """\
_pbdist_study() {{
  _alternative 'studies:study:({names})' 'files:study file:_files'
}}
""",
    "fish": """\
function _pbdist_study
  printf '%s\\n' {names}
  __fish_complete_path (commandline -ct)
end
""",
}


def add_to(commands: Commands, whole: argparse.ArgumentParser) -> None:
    """Add the command; `whole` is the parser of the command line."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    parser.set_defaults(action=lambda options: _completion(options, whole))


def _completion(options: argparse.Namespace, whole: argparse.ArgumentParser) -> int:
    try:
        import shtab
    except ImportError as error:
        raise MissingDependencyError(
            "completion: expected shtab, got none: pip install 'pbdist[completion]'"
        ) from error
    if options.shell not in shtab.SUPPORTED_SHELLS:
        raise InvalidInputError(f"shell: expected one that this shtab knows, got {options.shell}: pip install -U shtab")
    from pbdist.sizing.systems import load_systems
    from pbdist.study.starter import shipped_names, starter_kinds

    names = shipped_names()
    choices: Mapping[tuple[str, str], tuple[str, ...]] = {
        ("studies", "show"): names,
        ("new", "like"): names,
        ("new", "mechanism"): starter_kinds(),
        ("size", "system"): tuple(system.name for system in load_systems()),
    }
    places: Mapping[str, Any] = {"FILE": shtab.FILE, "PATH": shtab.FILE, "STORE": shtab.DIRECTORY}
    for command, action in _actions(whole):
        completing: Any = action
        if (command, action.dest) in choices:
            completing.choices = choices[command, action.dest]
        elif action.dest == "study":
            completing.complete = _STUDY_OR_FILE
        elif str(action.metavar).partition(".")[0] in places:
            completing.complete = places[str(action.metavar).partition(".")[0]]
    preamble = _PREAMBLE.get(options.shell, "").format(names=" ".join(names))
    print(shtab.complete(whole, options.shell, preamble=preamble))
    return 0


def _actions(parser: argparse.ArgumentParser, command: str = "") -> Iterator[tuple[str, argparse.Action]]:
    """Yield the arguments of a parser and of its commands, each with the name of the command."""
    complete(parser)
    # argparse has no public list of what it knows.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _actions(inner, name)
        else:
            yield command, action
