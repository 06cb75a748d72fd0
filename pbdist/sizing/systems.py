"""Read the systems whose noise is sized from a YAML file, ``data/systems.yaml`` by default.

Every figure has its source or is called an example. An error names the file, the line, the field, the
expected value and the found one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, make_dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    READINGS,
    DiscreteGaussian,
    DiscreteLaplace,
    ElementaryPair,
    Form,
    Laplace,
    NoisyCount,
    Parameter,
    Product,
    Reversed,
    noise_parameter,
    parameters_of,
    positive,
    whole,
)
from pbdist.mechanisms.pair import Pair
from pbdist.results import NOTHING_KNOWN, Bracket, Verdict
from pbdist.rounding import exact
from pbdist.sizing.api import size
from pbdist.sizing.families import COUNT_NOISES, CountFamily, CountNoise, noise_class
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.target import computed_bracket
from pbdist.study import Target
from pbdist.study.document import Document, read_document, read_each
from pbdist.study.fields import (
    composition,
    constructed,
    each,
    flag,
    key,
    mapping,
    number,
    of_domain,
    other_kinds,
    some,
    text,
)
from pbdist.study.load import TargetKeys, format_one
from pbdist.suggestions import did_you_mean


def _line(document: Document) -> str:
    found = " ".join(text(document).split())
    if not found:
        document.refuse("expected a text, got an empty one")
    return found


def _one_of(document: Document, known: Mapping[str, Any]) -> Any:
    if not isinstance(document.data, str) or document.data not in known:
        near = did_you_mean(document.data, known, other_kinds())
        document.refuse(f"expected one of {', '.join(known)}, got {shown(document.data)}{near}")
    return known[document.data]


def _sources(document: Document) -> Mapping[str, str]:
    return {name: _line(document.at(name)) for name in mapping(document)}


_noise = partial(_one_of, known={kind.__name__: kind for kind in COUNT_NOISES})
_readings = partial(each, read=partial(_one_of, known={name: name for name in READINGS}))
#: How dataclasses of keys that depend on a kind are made.
_KEYS: Any = {"frozen": True, "kw_only": True}
_natural = of_domain(whole(1, MAX_COMPOSITIONS))
_positive = of_domain(positive)


@dataclass(frozen=True, kw_only=True)
class FileKeys:
    """The file."""

    format: int = key(format_one)
    systems: Sequence[Document] = key(partial(some, what="systems"))
    sources: Mapping[str, str] | None = key(_sources, None)


@dataclass(frozen=True, kw_only=True)
class SystemKeys:
    """One system."""

    name: str = key(_line)
    description: str = key(_line)
    observation: Document = key(lambda found: found)
    targets: Sequence[Document] = key(partial(some, what="targets"))
    sources: Sequence[Document] = key(Document.items, ())
    settings: Sequence[Document] = key(Document.items, ())


@dataclass(frozen=True, kw_only=True)
class OriginKeys:
    """Where a figure is from."""

    source: Document | None = key(lambda found: found, None)
    where: str | None = key(_line, None)
    note: str | None = key(_line, None)
    example: str | None = key(_line, None)


@dataclass(frozen=True, kw_only=True)
class SourcedTarget(OriginKeys, TargetKeys):
    """A target."""


@dataclass(frozen=True, kw_only=True)
class CountsKeys:
    """Counts that are seen together."""

    kind: str
    counts: Sequence[Document] = key(partial(some, what="counts"))
    readings: tuple[str, ...] = key(_readings, READINGS)


@dataclass(frozen=True, kw_only=True)
class ObservedCount:
    """One of several counts that the adversary sees together."""

    #: By how much one user's action changes the true count, at least 1.
    shift: int = key(_natural)
    #: Mean and scale of the noise on it, as multiples of those of the system's noise.
    share: float = key(_positive, 1.0)
    #: How many messages it takes to raise the count by 1.
    messages: float = key(_positive, 1.0)
    #: Whether the count falls where the first one rises.
    reversed: bool = key(flag, False)

    def __str__(self) -> str:
        share = "" if self.share == 1 else f" with {exact(self.share)} times the noise"
        return f"{'the opposite shift' if self.reversed else 'shift'} {self.shift}{share}"


@dataclass(frozen=True, kw_only=True)
class SettingKeys(OriginKeys):
    """Published noise."""

    name: str = key(_line)
    compositions: int | None = key(composition, None)


@dataclass(frozen=True, kw_only=True)
class CountSettingKeys(SettingKeys):
    """Published noise on counts."""

    noise: CountNoise = key(_noise)
    mean: float = key(number)
    scale: float = key(number)


@dataclass(frozen=True, kw_only=True)
class ServersSettingKeys(SettingKeys):
    """How many servers, all of them honest, add how many messages each, on average."""

    servers: int = key(_natural)
    messages: float = key(_positive)

    @property
    def mean(self) -> float:
        """The mean of all messages: a sum of independent Poisson numbers is one. Dishonest servers hide nothing."""
        return self.servers * self.messages


#: Tolerances of `judge`, one after the other until the bounds decide.
_TOLERANCES = (1e-3, 1e-4, 1e-6)


@dataclass(frozen=True)
class NoisyCounts:
    """Counts to which whole-numbered noise is added, each with an independent draw in every round.

    One user's action changes all of them at once. Where a request moves from the count n to the count m, the true
    counts are (n + 1, m) under one input and (n, m + 1) under the other one, so that what is seen is (n + 1 + N, m + M)
    or (n + N, m + 1 + M), N and M independent. Everybody else's requests n and m are known to the adversary: taken
    away, they leave (1 + N, M) against (N, 1 + M). With (A, B) = (N, 1 + N) of `NoisyCount` for the first count and
    (A', B') for the second one this is B × A' against A × B': one factor is reversed, and the pair is
    ``Product(NoisyCount(..), Reversed(NoisyCount(..)))``. Nothing is lost: the map is a bijection, and counts that do
    not change are independent of both and equally distributed under both. Where N and M have the same distribution,
    exchanging the two coordinates exchanges the two inputs, so that both directions are the same, and it makes no
    difference whether the request moves one way in some rounds and the other way in others.
    """

    counts: tuple[ObservedCount, ...]
    #: The readings of "noise on a count" to size and judge, the protocol's own first.
    readings: tuple[str, ...]

    setting_keys: ClassVar = CountSettingKeys

    def family(self, noise: CountNoise, reading: str | None = None) -> CountFamily:
        """Return the worst-case pairs of one round by mean and scale of the system's noise, with its messages."""
        chosen, whole = reading or self.readings[0], issubclass(noise, DiscreteLaplace | DiscreteGaussian)

        def pair(mean: float, scale: float) -> Pair:
            factors: list[ElementaryPair] = []
            for count in self.counts:
                part = count.share * mean
                if whole and abs(part - round(part)) <= 1e-12 * abs(part):
                    # The mean of discrete noise, without the rounding of its share.
                    part = float(round(part))
                one = NoisyCount(noise(count.share * scale), part, count.shift, chosen)
                factors.append(Reversed(one) if count.reversed else one)
            return factors[0] if len(factors) == 1 else Product(*factors)

        return CountFamily(pair, weights=tuple(count.messages for count in self.counts))


@dataclass(frozen=True)
class NoiseObservation:
    """One outcome of a mechanism that has a single amount of noise."""

    #: The class of the mechanism.
    kind: type[Pair]
    #: The other arguments of its constructor, by name.
    parameters: tuple[tuple[str, float], ...]

    @property
    def amount(self) -> Parameter:
        """The parameter that is the amount of noise."""
        (amount,) = (one for one in parameters_of(self.kind).values() if one.sized)
        return amount

    @property
    def setting_keys(self) -> type[SettingKeys]:
        """The keys of published noise: the amount, or the servers that add messages."""
        if self.amount.name == "mean":
            return ServersSettingKeys
        return make_dataclass("AmountKeys", [(self.amount.name, float, key(number))], bases=(SettingKeys,), **_KEYS)

    def mechanism(self, amount: float) -> Pair:
        """Return the pair with that amount of noise: a scale, the mean of a Poisson number, or the p of a response."""
        construct: Callable[..., Pair] = self.kind
        return construct(**{self.amount.name: amount}, **dict(self.parameters))


@dataclass(frozen=True)
class PublishedSetting:
    """Noise that was published."""

    name: str
    origin: str
    #: The noise on counts; None for another observation.
    noise: CountNoise | None
    mean: float | None
    scale: float | None
    #: The rounds for which it was published, if any.
    compositions: int | None
    #: The worst-case pair under each of the readings, one pair where there are none.
    mechanisms: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class SystemTarget(Target):
    """A target of a system, and where it is from."""

    origin: str


@dataclass(frozen=True)
class System:
    """A system, its published noise and its targets."""

    name: str
    description: str
    #: Citations, by the names that origins give them.
    sources: Mapping[str, str]
    observation: NoisyCounts | NoiseObservation
    settings: tuple[PublishedSetting, ...]
    #: At least one.
    targets: tuple[SystemTarget, ...]

    @property
    def observed(self) -> tuple[str, ...]:
        """Its counts, or the parameters of what is observed, in words."""
        if isinstance(self.observation, NoisyCounts):
            return tuple(map(str, self.observation.counts))
        return tuple(f"{name} {exact(value)}" for name, value in self.observation.parameters)


def judge(mechanism: Pair, target: Target) -> Bracket:
    """Bound δ of a mechanism narrowly enough to decide whether it meets a target, if bounds can."""
    found = NOTHING_KNOWN
    for tolerance in _TOLERANCES:
        found = found.narrowed(computed_bracket(mechanism, target, tolerance))
        if found.verdict(target.delta) is not Verdict.UNDECIDED:
            break
    return found


def size_system(
    system: System, target: Target, *, noise: CountNoise | None = None, reading: str | None = None, **options: Any
) -> SizedNoise:
    """Return the smallest noise of a system that provably meets a target, one of the system's or any other.

    `noise` and `reading` are those of `system_family`. Of counts, mean and scale are those of the system's noise, of
    which each has its share, and ``expected_messages`` are those on all counts. `options` go to `pbdist.size`.
    """
    family, parameters, _ = system_family(system, noise, reading)
    point = {name: getattr(target, name) for name in ("compositions", "epsilon", "delta")}
    return size(family, **point, **parameters, **options)


def system_family(
    system: System, noise: CountNoise | str | None = None, reading: str | None = None
) -> tuple[type[Pair] | CountFamily, dict[str, Any], str]:
    """Return the family of a system's noise, its parameters, as `pbdist.size` takes them, and both in words.

    For noisy counts, `noise` is one of `COUNT_NOISES`, by default that of the first published setting, or else Laplace,
    and `reading` by default the protocol's own.
    """
    observation = system.observation
    if not isinstance(observation, NoisyCounts):
        for name, value in (("noise", noise), ("reading", reading)):
            if value is not None:
                raise InvalidInputError(f"{name}: applies to noisy counts, of which {system.name} has none")
        words = ", ".join((f"{observation.kind.__name__} noise found", *system.observed))
        return observation.kind, dict(observation.parameters), words
    chosen = reading or observation.readings[0]
    if chosen not in observation.readings:
        known = ", ".join(observation.readings)
        raise InvalidInputError(f"reading: expected one of {known} for {system.name}, got {shown(reading)}")
    published = next((setting.noise for setting in system.settings if setting.noise is not None), Laplace)
    kind = published if noise is None else noise_class(noise)
    words = ", ".join((f"{kind.__name__} noise found", f"reading {chosen}", *system.observed))
    return observation.family(kind, chosen), {}, words


def default_systems_path() -> Path:
    """Return the path of the file that comes with pbdist: in the installed package, else in the checkout."""
    package = Path(str(files("pbdist")))
    installed = package / "systems.yaml"
    return installed if installed.is_file() else package.parent / "data" / "systems.yaml"


def load_systems(path: str | Path | None = None) -> tuple[System, ...]:
    """Read and check the systems of a file, by default of the one that comes with pbdist.

    Guaranteed: every published mechanism has been constructed, so that all returned ones can be judged.
    """
    return read_document(default_systems_path() if path is None else Path(path), _systems, "systems")


def system_names() -> list[str]:
    """Return the names of the systems that come with pbdist."""
    return [system.name for system in load_systems()]


def find_system(name: str, path: str | Path | None = None) -> System:
    """Return the system of that name in a file, by default the one that comes with pbdist; an error lists the names."""
    known = {system.name: system for system in load_systems(path)}
    if name not in known:
        near = did_you_mean(name, known) or ("" if path else "; one of your own needs its file too: --systems FILE")
        raise InvalidInputError(f"system: expected one of {', '.join(known)}, got {shown(name)}{near}")
    return known[name]


def _systems(document: Document) -> tuple[System, ...]:
    found = constructed(document, FileKeys)
    names: set[str] = set()

    def read(entry: Document) -> System:
        system = _system(entry, found.sources or {})
        if system.name in names:
            entry.at("name").refuse(f"expected each name once, got {shown(system.name)} again")
        names.add(system.name)
        return system

    return tuple(read_each(read, found.systems))


def _system(entry: Document, sources: Mapping[str, str]) -> System:
    found = constructed(entry, SystemKeys)
    observation = _observation(found.observation)
    # Read last, once the figures are checked.
    cited = (one.at("source") for one in (*found.settings, *found.targets) if "source" in one.data)
    return System(
        name=found.name,
        description=found.description,
        observation=observation,
        settings=tuple(_setting(one, observation, sources) for one in found.settings),
        targets=tuple(_target(one, sources) for one in found.targets),
        sources={one.data: _one_of(one, sources) for one in (*found.sources, *cited)},
    )


def _observation(entry: Document) -> NoisyCounts | NoiseObservation:
    kind = mapping(entry).get("kind")
    if kind == "counts":
        counts = constructed(entry, CountsKeys)
        return NoisyCounts(tuple(constructed(one, ObservedCount) for one in counts.counts), counts.readings)
    known = {name: one for name, one in MECHANISMS.items() if one.in_studies and _is_observed(one)}
    if kind not in known:
        near = did_you_mean(kind, ("counts", *known), other_kinds())
        expected = f"expected a kind among counts, {', '.join(known)}, got {shown(kind)}{near}"
        (entry.at("kind") if "kind" in entry.data else entry).refuse(expected)
    numeric = [one for one in parameters_of(known[kind]).values() if one.domain.form is Form.NUMBER and not one.sized]
    keys: list[Any] = [(one.name, Any, key(number, MISSING if one.required else None)) for one in numeric]
    found = vars(constructed(entry, make_dataclass("ObservationKeys", [("kind", str), *keys], **_KEYS)))
    given = {name: value for name, value in found.items() if name != "kind" and value is not None}
    # Mechanisms that count take whole numbers as integers.
    numbers = ((name, int(value) if value.is_integer() else value) for name, value in given.items())
    observation = NoiseObservation(known[kind], tuple(numbers))
    try:
        # An amount that is valid: an error is about the other parameters.
        observation.mechanism(observation.amount.examples[0])
    except InvalidInputError as error:
        entry.refuse(str(error))
    return observation


def _is_observed(kind: type[Pair]) -> bool:
    """Whether a kind has one amount of noise, and needs no other parameters than numbers."""
    needed = (one for one in parameters_of(kind).values() if one.required)
    return noise_parameter(kind) is not None and all(one.domain.form is Form.NUMBER for one in needed)


def _setting(
    entry: Document, observation: NoisyCounts | NoiseObservation, sources: Mapping[str, str]
) -> PublishedSetting:
    found: Any = constructed(entry, observation.setting_keys)
    origin = _origin(entry, found, sources)
    noise = mean = scale = None
    pairs: tuple[Pair, ...]
    try:
        if isinstance(observation, NoiseObservation):
            pairs = (observation.mechanism(getattr(found, observation.amount.name)),)
        else:
            noise, mean, scale = found.noise, found.mean, found.scale
            pairs = tuple(observation.family(noise, reading).pair(mean, scale) for reading in observation.readings)
    except InvalidInputError as error:
        entry.refuse(str(error))
    return PublishedSetting(found.name, origin, noise, mean, scale, found.compositions, pairs)


def _target(entry: Document, sources: Mapping[str, str]) -> SystemTarget:
    found = constructed(entry, SourcedTarget)
    epsilon = found.epsilon or math.log(found.exp_epsilon or 1.0)
    origin = _origin(entry, found, sources)
    return SystemTarget(compositions=found.compositions, epsilon=epsilon, delta=found.delta, origin=origin)


def _origin(entry: Document, found: OriginKeys, sources: Mapping[str, str]) -> str:
    """Return in a few words the source of a figure."""
    if found.source is None and found.example is None:
        entry.refuse("expected a source or an example, got neither")
    parts = [] if found.example is None else [f"{found.example} is an example"]
    if found.source is not None:
        _one_of(found.source, sources)
        parts.insert(0, ", ".join(filter(None, (found.source.data, found.where))))
    return "; ".join(filter(None, (*parts, found.note)))
