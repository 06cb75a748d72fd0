"""Commands and options of click, with several values after an option, a help in sections, and errors of one line."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from itertools import product, takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from pbdist.cli import GOES_ON
from pbdist.cli.output import EXIT_CODES, MISSED, printed_warnings, sign_of_life
from pbdist.errors import InvalidInputError, OffGridError, PbdistError
from pbdist.suggestions import did_you_mean

if TYPE_CHECKING:
    from pbdist.study import Target

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
#: The prefix of the names of parameters of mechanisms, which differ so from those of other options.
PREFIX = "parameter_"
#: Options that exclude each other in every command.
_EXCLUSIVE = (("epsilon", "exp_epsilon"), ("format", "json"))
_FIELD = re.compile(r"(?:[A-Z]\w+\.)?(?P<name>[a-z]\w*): ")
#: An option, and not the value of one, such as a negative number.
_OPTION = re.compile(r"--?(?!inf|nan)[A-Za-z]")

FILE, PATH = click.Path(), click.Path(path_type=Path)


def refuse(field: str, problem: str) -> NoReturn:
    """Raise the error that is printed as one line: ``FIELD: expected .., got ..``."""
    raise InvalidInputError(f"{field}: {problem}")


def flag(name: str) -> str:
    """Return the option of a parameter: ``--noise-multiplier`` for noise_multiplier."""
    return f"--{name.replace('_', '-')}"


def field_of(parameter: click.Parameter) -> str:
    """Return the name of a parameter for users: the option, or the argument in capital letters."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name.strip("[].")


class Options(SimpleNamespace):
    """The options of a command by name, None where one is not given; ``progress`` are the steps that it prints."""

    progress: Any

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of some options that are given."""
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def refuse(self, *names: str, problem: str) -> None:
        """Refuse the first of some options that is given, as it would be ignored."""
        for name in self.given(*names):
            refuse(flag(name), problem)

    def targets(self) -> "list[Target]":
        """Return all combinations of the given targets, checked."""
        given = self.given("compositions", "epsilon", "exp_epsilon", "delta")
        for name in ("compositions", "epsilon", "delta") if given else ():
            if name not in given and not (name == "epsilon" and "exp_epsilon" in given):
                refuse(flag(name), "expected a value, got none: a target needs --compositions, --epsilon and --delta")
        if not given:
            return []
        from pbdist.sizing.target import checked_target

        combinations = product(*(one if isinstance(one, list) else [one] for one in given.values()))
        either: dict[str, Any] = {"epsilon": None, "exp_epsilon": None}
        return [checked_target(**{**either, **dict(zip(given, values, strict=True))}) for values in combinations]

    @property
    def form(self) -> str:
        """The chosen format of answers."""
        return "json" if self.json else self.format or "table"


class Choice(click.Choice[str]):
    """One of some names; of a wrong one the error says which is likely meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the error."""
        return super().get_invalid_choice_message(value, ctx).rstrip(".") + did_you_mean(value, self.choices)


def completed(names: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return what completes an option by the names that ``MODULE:FUNCTION`` returns, or else by files."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG001
        module, _, function = names.partition(":")
        known: Iterable[str] = getattr(import_module(module), function)()
        return [name for name in known if name.startswith(incomplete)] or [CompletionItem(incomplete, type="file")]

    return complete


class Option(click.Option):
    """An option, declared as its usage is printed, under a heading of the help.

    ``--delta D..`` takes as many values as follow it, ``--limits LOW HIGH`` two, and ``--json`` is a flag. `name` is
    its name in functions, if another one.
    """

    def __init__(
        self, usage: str, what: str, kind: Any = None, *, name: str = "", section: str = "Options", **settings: Any
    ) -> None:
        self.section = section
        names = [word for word in usage.split() if word.startswith("-")]
        values = usage.split()[len(names) :]
        if values:
            settings |= {"metavar": " ".join(values), "nargs": len(values), "multiple": values[-1].endswith("..")}
        elif kind is None:
            settings["is_flag"] = True
        super().__init__([*names, *([name] if name else [])], help=what, type=kind, **settings)


class Argument(click.Argument):
    """An argument with a description, declared as its usage is printed: ``STORE``, ``STORE..`` or ``[STORE]``."""

    section = "Arguments"

    def __init__(self, usage: str, what: str, kind: Any = FILE, *, name: str = "", **settings: Any) -> None:
        self.about = what
        count, needed = -1 if usage.endswith("..") else 1, not usage.startswith("[")
        names = [name or usage.strip("[].").lower()]
        super().__init__(names, metavar=usage, nargs=count, required=needed, type=kind, **settings)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002
        """Return the usage and the description."""
        return self.human_readable_name, self.about


class Command(click.Command):
    """A command with an example.

    Of options that `exclusive` has together only one may be given, and of those in `needs` one has to. `late` returns
    options that take long to import, given the usage of the others. `resumes` says whether a command with these options
    goes on where it was interrupted. Warnings are printed on stderr, and with ``--strict`` they have an exit code of
    their own; with `progress` also the steps.
    """

    def __init__(
        self,
        name: str | None,
        *,
        example: str = "",
        exclusive: Sequence[Sequence[str]] = (),
        needs: Sequence[Sequence[str]] = (),
        late: Callable[[frozenset[str]], list[Option]] = lambda _: [],
        resumes: Callable[[Options], object] = lambda _: False,
        progress: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(name, epilog=f"\b\nExample:\n  pbdist {example}\n\n{EXIT_CODES}", **settings)
        self.example, self._exclusive, self._needs = example, (*_EXCLUSIVE, *exclusive), needs
        self._late, self._resumes, self._progress = late, resumes, progress

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; the late ones are made once for each call, as mechanisms may have been added."""
        own, key = super().get_params(ctx), f"{__name__}.{self.name}"
        if key not in ctx.meta:
            ctx.meta[key] = self._late(frozenset(name for one in own for name in one.opts))
        return [*own, *ctx.meta[key]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and check which are given together."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        rest = super().parse_args(ctx, self._spread(ctx, args))
        fields = {one.name: field_of(one) for one in self.get_params(ctx)}
        given = [name for name in fields if ctx.get_parameter_source(name or "") is ParameterSource.COMMANDLINE]
        for names in self._exclusive:
            first, *others = [fields[name] for name in given if name in names] or [""]
            if others:
                refuse(others[0], f"cannot be combined with {first}")
        for names in self._needs:
            if not {*names} & {*given}:
                refuse(" or ".join(fields[name] for name in names), "expected a value, got none")
        return rest

    def _spread(self, ctx: click.Context, words: Sequence[str]) -> list[str]:
        """Repeat an option before each of its values, as click expects it; one without a value is refused."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        found: list[str] = []
        rest, seen = list(words), set[str]()
        while rest:
            word = rest.pop(0)
            name, equals, _ = word.partition("=")
            option = options.get(name)
            if option is None or option.is_flag:
                found.append(word)
                continue
            if name in seen and not option.multiple:
                refuse(name, "is given more than once: give it once")
            seen.add(name)
            values = [] if equals else list(takewhile(lambda one: not _OPTION.match(one), rest))
            if not values and not equals:
                refuse(name, "expected a value, got none")
            if option.multiple and values:
                found += [each for one in values for each in (name, one)]
                del rest[: len(values)]
            else:
                found.append(word)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function of the command with its options: several values are a list."""
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in ctx.params.items()}
        options = Options(**{name: None if value == [] else value for name, value in given.items()})
        action: Any = self.callback
        try:
            # A run shows its own progress.
            shown = sign_of_life() if self._progress else nullcontext()
            with printed_warnings() as missed, shown as options.progress:
                code = action(options)
            return MISSED if missed and not code and getattr(options, "strict", False) else code
        except (InvalidInputError, OffGridError) as error:
            raise self._named(error, ctx) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(GOES_ON if self._resumes(options) else "") from None

    def _named(self, error: PbdistError, ctx: click.Context) -> PbdistError:
        """Return an error of a function that names a parameter as one that names the option that gave it."""
        fields = {(one.name or "").removeprefix(PREFIX): field_of(one) for one in reversed(self.get_params(ctx))}
        found = _FIELD.match(str(error))
        if found is None or found["name"] not in fields or type(error) not in (InvalidInputError, OffGridError):
            return error
        return type(error)(f"{fields[found['name']]}: {str(error)[found.end() :]}")

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the usage of each parameter and its description, under their headings."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            found.setdefault(getattr(one, "section", "Options"), []).append(one.get_help_record(ctx) or ("", ""))
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print arguments and options under their headings."""
        for title, records in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)


def command(name: str, *parameters: click.Parameter, **settings: Any) -> Callable[[Callable[[Options], int]], Command]:
    """Make a command of a function: its docstring is the help, and its first sentence the summary."""
    return click.command(name, cls=Command, params=list(parameters), context_settings=SETTINGS, **settings)
