"""How a mechanism declares itself: its parameters, the words about it, and the registry of all kinds.

Validation, study files, options, store columns, reports and the tables of the documentation are derived from it.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from inspect import getattr_static
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, TypeVar, dataclass_transform

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.masses import with_checked_masses
from pbdist.suggestions import did_you_mean
from pbdist.types import checked_adjacency

#: Noise may be cut or redrawn only where at least this mass remains: masses are divided by it.
SMALLEST_REMAINDER = 1e-10

#: Scales, sensitivities and truncations beyond this, or below its inverse, are refused rather than left to overflow.
_LARGEST = 1e30


def checked_number(owner: str, field: str, value: Any) -> float:
    """Return `value` as a finite float, or raise `InvalidInputError`."""
    # The usual case first: a study makes a million of them, and a check against an abstract base class is slow.
    if type(value) is float and math.isfinite(value):
        return value + 0.0
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{owner}.{field}: expected a number, got {shown(value)}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise InvalidInputError(f"{owner}.{field}: expected a finite number, got {shown(value)}")
    # Without the sign of a zero, so that equal pairs have equal canonical forms.
    return result + 0.0


def checked_size(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float above 0 whose square neither overflows nor vanishes, or raise `InvalidInputError`."""
    result = checked_number(owner, field, value)
    if result <= 0.0:
        raise InvalidInputError(f"{owner}.{field}: expected a number above 0, got {shown(value)}")
    if not 1.0 / _LARGEST <= result <= _LARGEST:
        raise InvalidInputError(
            f"{owner}.{field}: expected a number from {1.0 / _LARGEST:g} to {_LARGEST:g}, got {shown(value)}"
        )
    return result


def checked_probability(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float in [0, 1], or raise `InvalidInputError`."""
    result = checked_number(owner, field, value)
    if not 0.0 <= result <= 1.0:
        raise InvalidInputError(f"{owner}.{field}: expected a probability in [0, 1], got {shown(value)}")
    return result


def checked_rate(owner: str, field: str, value: Any) -> float:
    """Return `value` as a float in (0, 1], or raise `InvalidInputError`."""
    result = checked_probability(owner, field, value)
    if result == 0.0:
        raise InvalidInputError(f"{owner}.{field}: expected a probability in (0, 1], got {result!r}")
    return result


def checked_integer(owner: str, field: str, value: Any, *, minimum: int, maximum: int) -> int:
    """Return `value` as an int from `minimum` to `maximum`, or raise `InvalidInputError`."""
    if type(value) is int and minimum <= value <= maximum:
        return value
    # A fraction may round to a whole float and not be whole.
    whole = isinstance(value, Integral) or (isinstance(value, Real) and value % 1 == 0)
    if isinstance(value, bool) or not whole or not minimum <= int(value) <= maximum:
        raise InvalidInputError(
            f"{owner}.{field}: expected a whole number from {minimum} to {maximum}, got {shown(value)}"
        )
    return int(value)


def checked_between(owner: str, field: str, value: Any, *, low: float, high: float) -> float:
    """Return `value` as a float from `low` to `high`, or raise `InvalidInputError`."""
    result = checked_number(owner, field, value)
    if not low <= result <= high:
        raise InvalidInputError(f"{owner}.{field}: expected a number from {low:g} to {high:g}, got {shown(value)}")
    return result


def checked_numbers(owner: str, field: str, value: Any) -> tuple[float, ...]:
    """Return `value` as a tuple of finite floats, at least one, or raise `InvalidInputError`."""
    listed: Any = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple) or not listed:
        raise InvalidInputError(f"{owner}.{field}: expected a list of numbers, got {shown(value)}")
    return tuple(checked_number(owner, f"{field}[{index}]", one) for index, one in enumerate(listed))


def checked_two_sizes(owner: str, field: str, value: Any) -> tuple[float, float]:
    """Return `value` as two sizes as of `size`, or raise `InvalidInputError`."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidInputError(f"{owner}.{field}: expected two numbers, got {shown(value)}")
    first, second = (checked_size(owner, f"{field}[{index}]", one) for index, one in enumerate(value))
    return first, second


def times_above(value: float, times: int) -> float:
    """Return the least float that is at least the product."""
    product = value * times
    return product if Fraction(product) >= Fraction(value) * times else math.nextafter(product, math.inf)


def checked_limits(owner: str, field: str, value: Any) -> tuple[float, float] | None:
    """Return `value` as (low, high) with low < high, or None, or raise `InvalidInputError`."""
    if value is None:
        return None
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InvalidInputError(f"{owner}.{field}: expected (low, high) or None, got {shown(value)}") from None
    low, high = checked_number(owner, field, low), checked_number(owner, field, high)
    if max(abs(low), abs(high)) > _LARGEST:
        raise InvalidInputError(f"{owner}.{field}: expected limits of at most {_LARGEST:g}, got ({low!r}, {high!r})")
    if not low < high:
        raise InvalidInputError(f"{owner}.{field}: expected low < high, got ({low!r}, {high!r})")
    return (low, high)


#: Other names of the scale of noise, of a sampling rate, a sensitivity, a loss.
SPREADS = (
    *("variance", "var", "sigma", "sigma_squared", "σ", "sd", "std", "stdev", "stddev", "standard_deviation"),
    *("noise_multiplier", "multiplier", "noise_scale", "b", "lambda", "gamma"),
)
RATES = ("q", "sampling_rate", "sample_rate", "sampling", "sampling_probability", "sample_probability", "fraction")
SENSITIVITIES = (
    *("delta_f", "l1_sensitivity", "l2_sensitivity", "clip", "clipping_norm", "max_grad_norm", "l2_norm_clip", "df"),
)
LOSSES = ("epsilon", "eps", "ε")

#: Other columns of tables of bounds: a parameter of such a name gets the column ``pair_NAME``.
_NOT_PARAMETERS = (
    *("mechanism", "kind", "pair", "factor", "made_of", "cell", "setting", "adjacency", "direction", "status"),
    *("compositions", "epsilon", "exp_epsilon", "delta", "columns", "refine"),
)


class Form(StrEnum):
    """How one value of a parameter is written in a study file."""

    NUMBER = "number"
    NUMBERS = "list of numbers"
    TWO_NUMBERS = "two numbers"
    LIMITS = "[low, high] or null"
    NAME = "name"
    MASSES = "list of counts or probabilities"
    MECHANISM = "mechanism"
    MECHANISMS = "list of mechanisms"


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may have, and how one is written.

    `check` is called with the kind's name, the parameter's name and a value; it returns the value as it is held, or
    raises `InvalidInputError`. `names` are the values of a name, `kinds` those that a mechanism may have (all
    elementary ones if empty), and `range` says which numbers, for documentation.
    """

    check: Callable[[str, str, Any], Any]
    form: Form = Form.NUMBER
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    range: str = ""


#: A number of a size that can be squared, above 0; any finite number; a number in [0, 1]; one in (0, 1].
positive = Domain(checked_size, range="above 0")
real = Domain(checked_number)
probability = Domain(checked_probability, range="from 0 to 1")
positive_probability = Domain(checked_rate, range="above 0, at most 1")
#: Two limits, the lower one first, or None; numbers, which the mechanism checks together; a mechanism.
limits = Domain(checked_limits, Form.LIMITS)
numbers = Domain(checked_numbers, Form.NUMBERS)
two_positive = Domain(checked_two_sizes, Form.TWO_NUMBERS)


def whole(minimum: int, maximum: int) -> Domain:
    """Return the whole numbers from `minimum` to `maximum`."""
    check = partial(checked_integer, minimum=minimum, maximum=maximum)
    return Domain(check, range=f"whole, from {minimum:,} to {maximum:,}")


def between(low: float, high: float) -> Domain:
    """Return the numbers from `low` to `high`, both included."""
    return Domain(partial(checked_between, low=low, high=high), range=f"from {low:g} to {high:g}")


def one_of(*names: str) -> Domain:
    """Return some names."""

    def check(owner: str, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            expected = f"expected one of {', '.join(names)}, got {shown(value)}"
            raise InvalidInputError(f"{owner}.{name}: {expected}{did_you_mean(value, names)}")
        return value

    return Domain(check, Form.NAME, names)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a mechanism, as `parameter` declares it, with the name of its field."""

    name: str
    domain: Domain
    what: str
    unit: str
    aliases: tuple[str, ...]
    hint: str
    example: Any
    columns: tuple[str, ...]
    sized: bool
    falls_with_noise: bool = False
    required: bool = True

    @property
    def nested(self) -> bool:
        """Whether its values are mechanisms."""
        return self.domain.form in (Form.MECHANISM, Form.MECHANISMS)

    @property
    def text(self) -> bool:
        """Whether its columns hold text; those of numbers do not."""
        return self.nested or self.domain.form in (Form.NAME, Form.NUMBERS, Form.MASSES)

    @property
    def described(self) -> str:
        """What it is, with its unit."""
        return f"{self.what}, in {self.unit}" if self.unit else self.what

    @property
    def examples(self) -> tuple[Any, ...]:
        """The values of `example`, one or more."""
        return tuple(self.example) if isinstance(self.example, list) else (self.example,)


def parameter(
    domain: Domain,
    what: str,
    *,
    default: Any = MISSING,
    unit: str = "",
    aliases: tuple[str, ...] = (),
    hint: str = "",
    example: Any = None,
    columns: tuple[str, ...] = (),
    sized: bool = False,
    falls_with_noise: bool = False,
) -> Any:
    """Declare a parameter of a mechanism: a field of its class.

    Parameters
    ----------
    domain : Domain
        The values that it may have: `positive`, `probability`, `whole` (1, 100), ..
    what : str
        What it is: a noun with its article, for messages, options and reports.
    default : object, optional
        Without one the parameter must be given.
    unit : str, optional
        Such as ``"counts"`` or ``"nats"``.
    aliases : tuple of str, optional
        Other names, in lower case with underscores, for hints.
    hint : str, optional
        Shown to users of another name; by default the name and its description.
    example : object, optional
        A value, or a list of values, for studies to begin with and for tests. Needed where there is no default.
    columns : tuple of str, optional
        Its columns in stores; by default one of its name.
    sized : bool, optional
        Whether it sets the amount of noise, so that `pbdist.size` can find it.
    falls_with_noise : bool, optional
        Whether less of it means more noise.
    """
    required = default is MISSING
    declared = Parameter("", domain, what, unit, aliases, hint, example, columns, sized, falls_with_noise, required)
    return field(default=default, metadata={"parameter": declared})


def gaussian_scale(example: Any) -> Any:
    """Declare the scale of Gaussian noise that hides a clipped contribution."""
    return parameter(
        positive,
        "the standard deviation of the noise",
        unit="counts",
        aliases=SPREADS,
        hint="scale is the standard deviation of the noise: the noise multiplier times the clipping norm",
        example=example,
        sized=True,
    )


def sampling_rate() -> Any:
    """Declare the rate of a Poisson sample."""
    return parameter(
        positive_probability, "the probability with which a record is in a sample", aliases=RATES, example=0.01
    )


def sensitivity_of(what: str, domain: Domain = positive, default: float = 1.0) -> Any:
    """Declare a sensitivity, 1 by default."""
    return parameter(domain, what, default=default, unit="counts", aliases=SENSITIVITIES)


_T = TypeVar("_T")
_KINDS: dict[str, type[Any]] = {}
#: Every kind of mechanism by its name, which its canonical form carries.
MECHANISMS: Mapping[str, type[Any]] = MappingProxyType(_KINDS)


def import_mechanisms(module: str, field: str = "module") -> None:
    """Import a module that defines mechanisms; errors name `field`."""
    try:
        import_module(module)
    except InvalidInputError:
        raise
    except (Exception, SystemExit) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        if "/" in module or module.endswith(".py"):
            cause = f"give its name, {module.removesuffix('.py').strip('./').replace('/', '.')}, and not its path"
        raise InvalidInputError(f"{field}: expected a module that can be imported, got {module}: {cause}") from error


def own_modules() -> tuple[str, ...]:
    """Return the modules outside of pbdist that define mechanisms: those that workers have to import, too."""
    found = {kind.__module__ for kind in _KINDS.values()}
    return tuple(sorted(name for name in found if name != "__main__" and not name.startswith("pbdist.")))


@dataclass_transform(frozen_default=True, field_specifiers=(parameter, gaussian_scale, sampling_rate, field))
def mechanism(kind: type[_T]) -> type[_T]:
    """Make a class a mechanism: a frozen dataclass whose parameters are checked, known to all of pbdist by its name.

    Another class of the same name is refused, and so is one that replaces an ability of another mechanism.
    """
    made = parametrised(kind)
    known = _KINDS.get(made.__name__)
    if known is not None and (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
        raise InvalidInputError(
            f"{made.__name__}: expected a name of its own, got that of a mechanism in {known.__module__}"
        )
    _check_names(made)
    for name, one in parameters_of(made).items():
        for other, its in all_parameters():
            if other != made.__name__ and {*one.columns} & {*its.columns} and one.text != its.text:
                raise InvalidInputError(
                    f"{made.__name__}.{name}: expected a column of its own, as that of {other} has values of another"
                    " type: give parameter(.., columns=(..,))"
                )
    neighbours: Any = vars(made).get("adjacency")
    if isinstance(neighbours, str):
        made.adjacency = checked_adjacency(neighbours, f"{made.__name__}.adjacency")  # type: ignore[attr-defined]
    # Also a method that the class has from a base of its own.
    masses = getattr(made, "loss_masses", None)
    if masses is not None and not masses.__module__.startswith("pbdist."):
        made.loss_masses = with_checked_masses(masses)  # type: ignore[attr-defined]
    _KINDS[made.__name__] = made
    return made


#: Abilities that a class may replace.
_FREE = ("check", "adjacency")


def refuse_replaced(kind: type[Any]) -> None:
    """Refuse a class that replaces an ability of a mechanism that it derives from.

    What is proved of the one need not hold of the other: bounds of Gaussian noise are read off in closed form, whatever
    the masses of a class that derives from it.
    """
    base = next((one for one in kind.__mro__[1:] if one in _KINDS.values()), None)
    if base is None or kind.__module__.startswith("pbdist."):
        return
    for name in dir(base):
        ability = any(_is_ability(vars(one).get(name)) for one in base.__mro__)
        if getattr_static(kind, name) is not getattr_static(base, name) and ability and name not in _FREE:
            raise InvalidInputError(
                f"{kind.__name__}: expected a class of its own, got a {base.__name__} that replaces {name}: derive"
                " it from ElementaryPair, for what is proved of the one need not hold of the other"
            )


def _is_ability(value: Any) -> bool:
    """Whether a member of a class is a method or a property, and not one that dataclasses make."""
    name = getattr(value, "__name__", "")
    return isinstance(value, property | cached_property) or (callable(value) and not name.startswith("__"))


#: Names that mean something else in study files, canonical forms or options.
_TAKEN = frozenset(
    (
        *("mechanism", "kind", "label", "settings", "declared", "family", "file", "columns", "factor", "made_of"),
        *("compositions", "exp_epsilon", "tolerance", "direction", "method", "buckets", "floor", "targets", "store"),
        *("format", "json", "strict", "system", "systems", "table", "refine", "each", "import"),
    )
)


def _check_names(kind: type[Any]) -> None:
    """Refuse parameters that an attribute of every pair, a key of studies or an option has the name of."""
    inherited = {name for base in kind.__mro__[1:] for name, value in vars(base).items() if _is_ability(value)}
    for name, one in parameters_of(kind).items():
        if name in _TAKEN or name in inherited or name in ("does", "assumes", "aliases", "noise_family", "in_studies"):
            raise InvalidInputError(f"{kind.__name__}.{name}: expected another name, as this one has a meaning already")
        if not one.what:
            raise InvalidInputError(f"{kind.__name__}.{name}: describe it in a few words: parameter(domain, '..')")
        if one.required and one.example is None and kind.in_studies:
            raise InvalidInputError(f"{kind.__name__}.{name}: expected an example, as there is no default")


@dataclass_transform(frozen_default=True, field_specifiers=(parameter, gaussian_scale, sampling_rate, field))
def parametrised(kind: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass with parameters, but no mechanism of its own: others derive from it."""
    made = dataclass(frozen=True)(kind)
    made.__doc__ = _documented(made)
    return made


#: The sections of a docstring before which the parameters stand.
_LATER = re.compile(r"\n(?=(?:Notes|References|Examples)\n-)")


def _documented(kind: type[Any]) -> str:
    """Return the docstring with a section on the parameters, unless it has one."""
    text = inspect.cleandoc(kind.__doc__ or "")
    declared = parameters_of(kind)
    if not declared or "\nParameters\n" in text:
        return text
    # Without the modules of classes.
    types = {one.name: re.sub(r"\w+\.(?=\w)", "", inspect.formatannotation(one.type)) for one in fields(kind)}
    lines = ["Parameters", "----------"]
    for name, one in declared.items():
        lines.append(f"{name} : {types[name]}{'' if one.required else ', optional'}")
        about = f"{one.described}, {one.domain.range}" if one.domain.range else one.described
        lines.append(f"    {about[:1].upper()}{about[1:]}.")
    lines += ["", "Raises", "------", "InvalidInputError", "    If a parameter is out of its range."]
    section = "\n".join(lines)
    later = _LATER.search(text)
    place = len(text) if later is None else later.start()
    return f"{text[:place].rstrip()}\n\n{section}\n{text[place:]}".rstrip()


_PARAMETERS: dict[type[Any], Mapping[str, Parameter]] = {}


def parameters_of(kind: type[Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a kind by name, in the order of the constructor."""
    found = _PARAMETERS.get(kind)
    if found is None:
        declared = {one.name: _named(one) for one in fields(kind) if "parameter" in one.metadata}
        found = _PARAMETERS[kind] = MappingProxyType(declared)
    return found


def _named(found: "Field[Any]") -> Parameter:
    one: Parameter = found.metadata["parameter"]
    return replace(
        one,
        name=found.name,
        hint=one.hint or f"{found.name} is {one.what}",
        columns=one.columns or (f"pair_{found.name}" if found.name in _NOT_PARAMETERS else found.name,),
        example=found.default if one.example is None and not one.required else one.example,
    )


def all_parameters() -> Iterator[tuple[str, Parameter]]:
    """Yield the parameters of all kinds, each with the name of its kind."""
    for name, kind in MECHANISMS.items():
        for one in parameters_of(kind).values():
            yield name, one


def noise_parameter(kind: type[Any]) -> Parameter | None:
    """Return the parameter that sets the amount of noise; None where there is none."""
    return next((one for one in parameters_of(kind).values() if one.sized), None)


def described(found: Mapping[str, str]) -> str:
    """Return one description of a parameter from those of each kind: once where all kinds agree."""
    kinds: dict[str, list[str]] = {}
    for kind, what in found.items():
        kinds.setdefault(what, []).append(kind)
    if len(kinds) == 1:
        return next(iter(kinds))
    return "; ".join(f"{what} ({', '.join(names)})" for what, names in kinds.items())
