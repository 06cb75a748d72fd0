"""Commands, options and values of the command line: those of click, with refusals in one line and help in sections.

Options may be added late, when a command is used: those that follow from what takes long to import.
"""

import glob
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from pbdist.cli.given import Options, refuse
from pbdist.cli.interrupts import begins_anew
from pbdist.cli.output import spelt
from pbdist.errors import InvalidInputError, OffGridError, PbdistError, shown
from pbdist.suggestions import did_you_mean

#: Names that a value may have, or what returns them, where they take long to import.
Names: TypeAlias = Sequence[str] | Callable[[], Iterable[str]]

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
#: What the names of late options begin with, so that they differ from those of questions.
PREFIXES = r"^(parameter|noise)_"
_FIELD = re.compile(r"(?:[A-Z]\w+\.)?(?P<name>[a-z]\w*): ")
_OPTION = re.compile(r"--?[A-Za-z]")


def field_of(parameter: click.Parameter | None) -> str:
    """Return what users call a parameter: the option, or the argument in capital letters."""
    if parameter is None:
        return "arguments"
    return max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.human_readable_name


# Not generic in older versions of click.
class Number(click.ParamType):  # type: ignore[type-arg]
    """A number, within limits if some are given."""

    name = "number"

    def __init__(self, low: float | None = None, high: float | None = None, unit: str = "", *, whole: bool = False):
        self._whole, self._limits = whole, None if low is None or high is None else (low, high)
        what = "a whole number" if whole else "a number"
        self._what = what + (f" from {low:,} to {high:,}" if self._limits else "") + (f" ({unit})" if unit else "")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the number that a text is."""
        try:
            found = int(value) if self._whole else float(value)
        except ValueError:
            near = _whole_float(value) if self._whole else None
            meant = "" if near is None else f": did you mean {near}?"
            refuse(field_of(param), f"expected {self._what}, got {shown(value)}{meant}")
        if self._limits and not self._limits[0] <= found <= self._limits[1]:
            refuse(field_of(param), f"expected {self._what}, got {value}")
        return found


def _whole_float(text: str) -> int | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return int(found) if found.is_integer() and abs(found) < 1e15 else None


class Word(click.ParamType):  # type: ignore[type-arg]
    """A text: with `only` one of some names; else any, of which a shell completes the names and the paths."""

    name = "word"

    def __init__(self, names: Names = (), *, only: bool = False, path: str = "", make: Callable[[str], Any] = str):
        self._names, self.only, self._path, self._make = names, only, path, make

    @property
    def names(self) -> list[str]:
        """The names that there are."""
        return list(self._names() if callable(self._names) else self._names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the text, or what is made of it; names other than the known ones are refused."""
        if self.only and value not in self.names:
            known, meant = ", ".join(self.names), did_you_mean(value, self.names)
            refuse(field_of(param), f"expected one of {known}, got {shown(value)}{meant}")
        return self._make(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Return what a shell proposes: names, and files beside them; or what it completes itself."""
        from click.shell_completion import CompletionItem

        found = [name for name in self.names if name.startswith(incomplete)]
        if self._path and not found:
            return [CompletionItem(incomplete, type=self._path)]
        files = sorted(glob.glob(f"{glob.escape(incomplete)}*")) if self._path else []
        return [CompletionItem(one) for one in (*found, *files)]


NUMBER, WHOLE = Number(), Number(whole=True)
FILE, FOLDER, PATH = Word(path="file"), Word(path="dir"), Word(path="file", make=Path)


def choice(*names: str) -> Word:
    """Return the type of a value that is one of some names."""
    return Word(names, only=True)


class Option(click.Option):
    """An option, declared as its usage is printed, under a heading of the help.

    ``--delta D..`` takes as many values as follow it, ``--limits LOW HIGH`` two, and ``--json`` is a flag. `name` is
    what functions call it, if not the same. With `brief` the help has its name alone.
    """

    def __init__(
        self,
        usage: str,
        what: str,
        kind: Number | Word | None = None,
        *,
        name: str | None = None,
        section: str = "Options",
        brief: bool = False,
        **settings: Any,
    ) -> None:
        self.section, self.brief = section, brief
        names = [word for word in usage.split() if word.startswith("-")]
        values = usage.split()[len(names) :]
        if values:
            settings |= {"metavar": " ".join(values), "nargs": len(values), "multiple": values[-1].endswith("..")}
        else:
            settings["is_flag"] = True
        super().__init__([*names, *([name] if name else [])], help=what, type=kind, **settings)


class Argument(click.Argument):
    """An argument that says what it is, declared as its usage is printed: ``STORE``, ``STORE..`` or ``[STORE]``."""

    section, brief = "Arguments", False

    def __init__(self, usage: str, what: str, kind: Number | Word, *, name: str | None = None) -> None:
        self.about = what
        count, needed = -1 if usage.endswith("..") else 1, not usage.startswith("[")
        super().__init__([name or usage.strip("[].").lower()], metavar=usage, nargs=count, required=needed, type=kind)


class Spelt(click.Command):
    """A command whose help is in letters that stdout has, and ends line by line as it was written."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the help."""
        return spelt(super().get_help(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the end."""
        formatter.write(f"\n{self.epilog}")


class Command(Spelt):
    """A command with an example, its exit codes, and options that exclude each other, by their names.

    `late` returns more options, once they are needed, when it is given the usage of the others. One that `resumes` goes
    on where it was interrupted when it is given again.
    """

    def __init__(
        self,
        name: str | None,
        *,
        example: str = "",
        exits: str = "",
        exclusive: Sequence[Sequence[str]] = (),
        late: Callable[[frozenset[str]], list[Option]] | None = None,
        resumes: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(name, **settings)
        self.epilog = f"Example:\n  pbdist {example}\n" + (f"\n{exits}" if exits else "")
        # Those are refused here, in our words.
        self.allow_extra_args = True
        self.example, self.exits, self._exclusive = example, exits, exclusive
        self._late, self._resumes = late, resumes

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; the late ones are made once for each call, as mechanisms may have been added."""
        own = super().get_params(ctx)
        if self._late is None:
            return own
        key = f"{__name__}.{self.name}"
        if key not in ctx.meta:
            ctx.meta[key] = self._late(frozenset(name for one in own for name in one.opts))
        return [*own, *ctx.meta[key]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; of options that exclude each other only one may be given."""
        rest = super().parse_args(ctx, args if ctx.resilient_parsing else self._spread(ctx, args))
        if rest and not ctx.resilient_parsing:
            known = " ".join(field_of(one) for one in self.params if isinstance(one, Argument)) or "options alone"
            refuse("arguments", f"expected {known}, got also {shown(rest[0])}: see {ctx.command_path} --help")
        for names in self._exclusive:
            values = {name: ctx.params.get(name) for name in names}
            given = [name for name, value in values.items() if value is not None and value is not False and value != ()]
            among = [one for one in self.params if one.name in given]
            if len(among) > 1 and not ctx.resilient_parsing:
                first, second = map(field_of, among[:2])
                refuse(second, f"expected none beside {first}, got both: give one of them")
        return rest

    def _spread(self, ctx: click.Context, words: Sequence[str]) -> list[str]:
        """Repeat an option before each of its values, as click has it; one without a value is refused."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        found: list[str] = []
        rest, seen = list(words), set[str]()
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*found, word, *rest]
            name = word.partition("=")[0] if word.startswith("--") else word
            once = options.get(name)
            if once is not None and not once.multiple and not once.is_flag:
                if name in seen:
                    refuse(name, "expected it once, got it again")
                seen.add(name)
            option = options.get(word)
            if option is None or option.is_flag or option.is_eager:
                found.append(word)
                continue
            count = next((place for place, one in enumerate(rest) if _is_option(one)), len(rest))
            count = count if option.multiple else min(count, option.nargs)
            values, rest = rest[:count], rest[count:]
            if count < option.nargs:
                wanted = "a value" if option.nargs == 1 else f"{option.nargs} values"
                refuse(word, f"expected {wanted}, got {count or 'none'}")
            found += [each for one in values for each in (word, one)] if option.multiple else [word, *values]
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Call the action with its options: several values are a list."""
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in ctx.params.items()}
        action: Any = self.callback
        if not self._resumes:
            begins_anew()
        try:
            return action(Options(**{name: None if value == [] else value for name, value in given.items()}))
        except (InvalidInputError, OffGridError) as error:
            raise self._named(error, ctx) from error

    def _named(self, error: PbdistError, ctx: click.Context) -> PbdistError:
        """Return an error of a function that names a parameter as one that names the option that gave it."""
        found = _FIELD.match(str(error))
        if found is None or type(error) not in (InvalidInputError, OffGridError):
            return error
        for one in self.get_params(ctx):
            names = one.name, re.sub(PREFIXES, "", one.name or "")
            given = ctx.get_parameter_source(one.name or "") is click.core.ParameterSource.COMMANDLINE
            # Errors of a run also call its processes workers.
            if found["name"] in names and (given or one.name != "workers"):
                return type(error)(f"{field_of(one)}: {str(error)[found.end() :]}")
        return error

    def sections(self, ctx: click.Context) -> dict[str, list[click.Parameter]]:
        """Return the parameters under their headings."""
        found: dict[str, list[click.Parameter]] = {}
        for one in self.get_params(ctx):
            found.setdefault(getattr(one, "section", "Options"), []).append(one)
        return found

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print no arguments here: they are a section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print arguments and options under their headings."""
        for title, found in self.sections(ctx).items():
            with formatter.section(title):
                if any(getattr(one, "brief", False) for one in found):
                    formatter.write(_paragraph([help_of(one, ctx)[0] for one in found], formatter.width))
                else:
                    formatter.write_dl([help_of(one, ctx) for one in found])


def _is_option(word: str) -> bool:
    """Whether a word is an option, and not the value of one, such as a negative number."""
    return bool(_OPTION.match(word)) and word.lower() not in ("-inf", "-infinity", "-nan")


def help_of(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str]:
    """Return how a parameter is given, and what it is."""
    if isinstance(parameter, Argument):
        return parameter.human_readable_name, parameter.about
    name, what = parameter.get_help_record(ctx) or ("", "")
    listed = parameter.type.names if isinstance(parameter.type, Word) and parameter.type.only else []
    return name, f"{what} [{', '.join(listed)}]" if listed else what


def _paragraph(names: Iterable[str], width: int) -> str:
    """Return names, each with its value, as lines that break between them only."""
    text = ", ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in names)
    lines = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines).replace("\N{NO-BREAK SPACE}", " ")


def command(name: str, *parameters: click.Parameter, **settings: Any) -> Callable[[Callable[[Options], int]], Command]:
    """Make a command of a function: its docstring is the help, and its first sentence says what is answered."""
    return click.command(name, cls=Command, params=list(parameters), context_settings=SETTINGS, **settings)


class Group(Spelt, click.Group):
    """All commands, in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command that is named; a misspelt one is refused with what is likely meant."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            near = did_you_mean(args[0], self.commands) or ": pbdist --help lists them"
            refuse("command", f"expected a command of pbdist, got {shown(args[0])}{near}")
        return super().resolve_command(ctx, args)


def usage_error(error: click.UsageError) -> str:
    """Return what click refuses in our words: the field, what was expected, and what is likely meant."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        name, path = error.option_name, error.ctx.command_path
        known = [name for one in error.ctx.command.get_params(error.ctx) for name in one.opts if name.startswith("--")]
        near = did_you_mean(name, known) or f": {path} --help lists them"
        return f"{name}: expected an option of {path}, got an unknown one{near}"
    if isinstance(error, click.MissingParameter):
        return f"{field_of(error.param)}: expected a value, got none"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: expected no value, got one"
    path = "pbdist" if error.ctx is None else error.ctx.command_path
    return f"arguments: {error.format_message().rstrip('.')}: {path} --help lists them"
