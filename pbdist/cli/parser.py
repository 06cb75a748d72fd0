"""Commands, options and values of the command line: those of click, with one-line errors and a help in sections."""

import glob
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import isfunction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from pbdist.cli.interrupts import begins_anew
from pbdist.cli.output import MISSED, printed_warnings, sign_of_life, spelt
from pbdist.errors import InvalidInputError, OffGridError, PbdistError, shown
from pbdist.suggestions import did_you_mean

if TYPE_CHECKING:
    from pbdist.study import Target

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
#: Prefixes of the names of late options, which differ so from those of other options.
PREFIXES = r"^(parameter|noise)_"
_FIELD = re.compile(r"(?:[A-Z]\w+\.)?(?P<name>[a-z]\w*): ")
_OPTION = re.compile(r"--?[A-Za-z]")


def refuse(field: str, problem: str) -> NoReturn:
    """Raise the error that is printed as one line: ``FIELD: expected .., got ..``."""
    raise InvalidInputError(f"{field}: {problem}")


def flag(name: str) -> str:
    """Return the option of a parameter: ``--noise-multiplier`` for noise_multiplier."""
    return f"--{name.replace('_', '-')}"


def field_of(parameter: click.Parameter | None) -> str:
    """Return the name of a parameter for users: the option, or the argument in capital letters."""
    if parameter is None:
        return "arguments"
    return max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.human_readable_name


class Options(SimpleNamespace):
    """The options of a command by name, None where one is not given.

    Of a command with `answers`, ``progress`` are the `Steps` that it prints.
    """

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of some options that are given."""
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def refuse(self, *names: str, problem: str) -> None:
        """Refuse the first of some options that is given, as it would be ignored."""
        for name in self.given(*names):
            refuse(flag(name), problem)

    def require(self, *names: str, problem: str = "expected a value, got none") -> None:
        """Refuse a command without any of some options."""
        if not self.given(*names):
            refuse(" or ".join(map(flag, names)), problem)

    def targets(self, problem: str = "expected a value, got none") -> "list[tuple[Target, float | None]]":
        """Return all combinations of the given targets, checked, each with the e^ε that was given for it."""
        given = self.given("compositions", "epsilon", "exp_epsilon", "delta")
        for name in ("compositions", "epsilon", "delta") if given else ():
            if name not in given and not (name == "epsilon" and "exp_epsilon" in given):
                refuse(flag(name), problem)
        if not given:
            return []
        from pbdist.sizing.target import checked_target

        found = []
        for values in product(*(one if isinstance(one, list) else [one] for one in given.values())):
            target = {"epsilon": None, "exp_epsilon": None, **dict(zip(given, values, strict=True))}
            found.append((checked_target(**target), target["exp_epsilon"]))
        return found

    @property
    def form(self) -> str:
        """The chosen format of answers."""
        if self.json and self.format not in (None, "json"):
            refuse("--json", f"cannot be combined with --format {self.format}")
        return "json" if self.json else self.format or "table"


# Not generic in older versions of click.
@dataclass(frozen=True, eq=False)
class Number(click.ParamType):  # type: ignore[type-arg]
    """A number, finite and within limits where there are some, or one of some words."""

    low: float | None = None
    high: float | None = None
    unit: str = ""
    whole: bool = False
    words: Sequence[str] = ()
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the number of a text."""
        if value in self.words:
            return value
        expected = "expected a whole number" if self.whole else "expected a number"
        if self.low is not None:
            expected += f" of at least {self.low:,}" if self.high is None else f" from {self.low:,} to {self.high:,}"
        expected += f" ({self.unit})" if self.unit else ""
        try:
            found = int(value) if self.whole else float(value)
        except ValueError:
            refuse(field_of(param), f"{expected}, got {shown(value)}{_meant(value) if self.whole else ''}")
        high = sys.float_info.max if self.high is None else self.high
        if self.low is not None and not self.low <= found <= high:
            refuse(field_of(param), f"{expected}, got {value}")
        return found


def _meant(text: str) -> str:
    """Return a hint at the whole number that a text such as 6e4 is."""
    try:
        found = float(text)
    except ValueError:
        return ""
    return f": did you mean {int(found)}?" if found.is_integer() and abs(found) < 1e15 else ""


@dataclass(frozen=True, eq=False)
class Word(click.ParamType):  # type: ignore[type-arg]
    """A text that a shell completes by names and by paths.

    With `only` it is one of the names; with `several`, names with commas between them.
    """

    #: The names; where they take long to import, ``MODULE:FUNCTION`` or ``MODULE:NAMES``.
    known: Sequence[str] = ()
    only: bool = False
    several: bool = False
    path: str = ""
    make: Callable[[str], Any] = str
    name = "word"

    @property
    def names(self) -> list[str]:
        """The known names."""
        if not isinstance(self.known, str):
            return list(self.known)
        module, _, name = self.known.partition(":")
        found = getattr(import_module(module), name)
        return list(found() if isfunction(found) else found)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Return the converted text; with `only`, other names are refused."""
        for one in [name.strip() for name in value.split(",")] if self.several else [value]:
            if self.only and one not in self.names:
                known, meant = ", ".join(self.names), did_you_mean(one, self.names)
                refuse(field_of(param), f"expected one of {known}, got {shown(one)}{meant}")
        return self.make(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Return what a shell proposes: names, and files beside them; or the kind of path that it completes itself."""
        from click.shell_completion import CompletionItem

        found = [name for name in self.names if name.startswith(incomplete)]
        if self.path and not found:
            return [CompletionItem(incomplete, type=self.path)]
        files = sorted(glob.glob(f"{glob.escape(incomplete)}*")) if self.path else []
        return [CompletionItem(one) for one in (*found, *files)]


NUMBER, WHOLE = Number(), Number(whole=True)
FILE, FOLDER, PATH = Word(path="file"), Word(path="dir"), Word(path="file", make=Path)


def choice(*names: str) -> Word:
    """Return the type of a value that is one of some names."""
    return Word(names, only=True)


class Option(click.Option):
    """An option, declared as its usage is printed, under a heading of the help.

    ``--delta D..`` takes as many values as follow it, ``--limits LOW HIGH`` two, and ``--json`` is a flag. `name` is
    its name in functions, if another one. With `brief` the help has its usage alone.
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
    """An argument with a description, declared as its usage is printed: ``STORE``, ``STORE..`` or ``[STORE]``."""

    section, brief = "Arguments", False

    def __init__(self, usage: str, what: str, kind: Number | Word, *, name: str | None = None) -> None:
        self.about = what
        count, needed = -1 if usage.endswith("..") else 1, not usage.startswith("[")
        super().__init__([name or usage.strip("[].").lower()], metavar=usage, nargs=count, required=needed, type=kind)


class Spelt(click.Command):
    """A command whose help has only letters that stdout has, and whose epilog stays line by line."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the help."""
        return spelt(super().get_help(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the epilog."""
        formatter.write(f"\n{self.epilog}")


class Command(Spelt):
    """A command with an example, its exit codes, and options that exclude each other, by their names.

    `late` returns options that take long to import, given the usage of the others. `resumes` says whether a command
    with these options goes on where it was interrupted when it is given again. One with `answers` prints its steps and
    warnings on stderr, and with ``--strict`` wide answers have an exit code of their own.
    """

    def __init__(
        self,
        name: str | None,
        *,
        example: str = "",
        exits: str = "",
        exclusive: Sequence[Sequence[str]] = (),
        late: Callable[[frozenset[str]], list[Option]] | None = None,
        resumes: Callable[[Options], object] = lambda _: False,
        answers: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(name, **settings)
        self.epilog = f"Example:\n  pbdist {example}\n" + (f"\n{exits}" if exits else "")
        # They are refused here, with an error of one line.
        self.allow_extra_args = True
        self.example, self.exits, self._exclusive = example, exits, exclusive
        self._late, self._resumes, self._answers = late, resumes, answers

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; the late ones are made once for each call, as mechanisms may have been added."""
        own, key = super().get_params(ctx), f"{__name__}.{self.name}"
        if self._late is not None and key not in ctx.meta:
            ctx.meta[key] = self._late(frozenset(name for one in own for name in one.opts))
        return [*own, *ctx.meta.get(key, ())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; of options that exclude each other only one may be given."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        rest = super().parse_args(ctx, self._spread(ctx, args))
        if rest:
            known = " ".join(field_of(one) for one in self.params if isinstance(one, Argument)) or "options alone"
            refuse("arguments", f"expected {known}, got also {shown(rest[0])}: see {ctx.command_path} --help")
        for names in self._exclusive:
            given = [field_of(one) for one in self.params if one.name in names and _is_given(one, ctx)]
            if len(given) > 1:
                refuse(given[1], f"cannot be combined with {given[0]}: give one of them")
        return rest

    def _spread(self, ctx: click.Context, words: Sequence[str]) -> list[str]:
        """Repeat an option before each of its values, as click expects it; one without a value is refused."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        found: list[str] = []
        rest, seen = list(words), set[str]()
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*found, word, *rest]
            name = word.partition("=")[0] if word.startswith("--") else word
            option = options.get(name)
            if option is not None and not option.multiple and not option.is_flag:
                if name in seen:
                    refuse(name, "expected it once, got it again")
                seen.add(name)
            if option is None or option.is_flag or name != word:
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
        """Call the function of the command with its options: several values are a list."""
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in ctx.params.items()}
        options = Options(**{name: None if value == [] else value for name, value in given.items()})
        action: Any = self.callback
        if not self._resumes(options):
            begins_anew()
        try:
            if not self._answers:
                return action(options)
            with printed_warnings() as missed, sign_of_life() as options.progress:
                code = action(options)
            return MISSED if options.strict and missed and not code else code
        except (InvalidInputError, OffGridError) as error:
            raise self._named(error, ctx) from error

    def _named(self, error: PbdistError, ctx: click.Context) -> PbdistError:
        """Return an error of a function that names a parameter as one that names the option that gave it."""
        found = _FIELD.match(str(error))
        if found is None or type(error) not in (InvalidInputError, OffGridError):
            return error
        for one in self.get_params(ctx):
            names = one.name, re.sub(PREFIXES, "", one.name or "")
            # Errors of a run also call its processes workers.
            if found["name"] in names and (one.name != "workers" or _is_given(one, ctx)):
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
                    # Lines break between options only.
                    names = (help_of(one, ctx)[0].replace(" ", "\N{NO-BREAK SPACE}") for one in found)
                    lines = textwrap.wrap(", ".join(names), formatter.width - 2, break_on_hyphens=False)
                    formatter.write("".join(f"  {line}\n" for line in lines).replace("\N{NO-BREAK SPACE}", " "))
                else:
                    formatter.write_dl([help_of(one, ctx) for one in found])


def _is_option(word: str) -> bool:
    """Whether a word is an option, and not the value of one, such as a negative number."""
    return bool(_OPTION.match(word)) and word.lower() not in ("-inf", "-infinity", "-nan")


def _is_given(parameter: click.Parameter, ctx: click.Context) -> bool:
    return ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


def help_of(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str]:
    """Return the usage of a parameter and its description."""
    if isinstance(parameter, Argument):
        return parameter.human_readable_name, parameter.about
    name, what = parameter.get_help_record(ctx) or ("", "")
    listed = parameter.type.names if isinstance(parameter.type, Word) and parameter.type.only else []
    return name, f"{what} [{', '.join(listed)}]" if listed else what


def command(name: str, *parameters: click.Parameter, **settings: Any) -> Callable[[Callable[[Options], int]], Command]:
    """Make a command of a function: its docstring is the help, and its first sentence the summary."""
    return click.command(name, cls=Command, params=list(parameters), context_settings=SETTINGS, **settings)


class Group(Spelt, click.Group):
    """All commands, in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the named command; a misspelt one is refused with the name that is likely meant."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            near = did_you_mean(args[0], self.commands) or ": pbdist --help lists them"
            refuse("command", f"expected a command of pbdist, got {shown(args[0])}{near}")
        return super().resolve_command(ctx, args)


def usage_error(error: click.UsageError) -> str:
    """Return an error of click in our form: the field, what was expected, and what is likely meant."""
    path = "pbdist" if error.ctx is None else error.ctx.command_path
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = [name for one in error.ctx.command.get_params(error.ctx) for name in one.opts if name.startswith("--")]
        near = did_you_mean(error.option_name, known) or f": {path} --help lists them"
        return f"{error.option_name}: expected an option of {path}, got an unknown one{near}"
    if isinstance(error, click.MissingParameter):
        return f"{field_of(error.param)}: expected a value, got none"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: expected no value, got one"
    return f"arguments: {error.format_message().rstrip('.')}: {path} --help lists them"
