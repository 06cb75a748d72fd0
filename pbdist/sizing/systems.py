"""Read the systems whose noise is sized from a YAML file, ``data/systems.yaml`` by default.

Every figure has its source or is called an example. An error names the file, the line, the field, the
expected value and the found one.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, PlainValidator, create_model

from pbdist.arguments import problem_of_either
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
)
from pbdist.mechanisms.pair import Pair
from pbdist.results import NOTHING_KNOWN, Bracket, Verdict
from pbdist.sizing.api import size
from pbdist.sizing.families import COUNT_NOISES, CountFamily, CountNoise
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.target import computed_bracket
from pbdist.study import Target
from pbdist.study.document import Document, read_document, read_each
from pbdist.study.fields import GridError, other_kinds
from pbdist.study.load import STRICT, Number, Positive, Round, TargetModel, model_at
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue


def _text(value: JsonValue) -> str:
    if not isinstance(value, str) or not value.strip():
        raise GridError(f"expected a text, got {shown(value)}")
    return " ".join(value.split())


def _named(value: JsonValue, known: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in known:
        near = did_you_mean(value, known, other_kinds())
        raise GridError(f"expected one of {', '.join(known)}, got {shown(value)}{near}")
    return known[value]


Text = Annotated[str, PlainValidator(_text)]
Reading = Annotated[str, PlainValidator(partial(_named, known={name: name for name in READINGS}))]
Noise = Annotated[Any, PlainValidator(partial(_named, known={kind.__name__: kind for kind in COUNT_NOISES}))]
Natural = Annotated[int, Field(ge=1)]
#: A list whose items are read one by one.
SomeItems = Annotated[list[Any], Field(min_length=1)]


class FileModel(BaseModel):
    """The file."""

    model_config = STRICT
    format: Literal[1]
    systems: SomeItems
    sources: dict[str, Text] = {}


class SystemModel(BaseModel):
    """One system."""

    model_config = STRICT
    name: Text
    description: Text
    observation: dict[str, Any]
    targets: SomeItems
    sources: list[Any] = []
    settings: list[Any] = []


class OriginModel(BaseModel):
    """Where a figure is from."""

    model_config = STRICT
    source: str | None = None
    where: Text | None = None
    note: Text | None = None
    example: Text | None = None


class SourcedTarget(OriginModel, TargetModel):
    """A target."""


class CountsModel(BaseModel):
    """Counts that are seen together."""

    model_config = STRICT
    kind: str
    counts: SomeItems
    readings: Annotated[list[Reading], Field(min_length=1)] = list(READINGS)


class ObservedCount(BaseModel):
    """One of several counts that the adversary sees together."""

    model_config = STRICT
    #: By how much one user's action changes the true count, at least 1.
    shift: Natural
    #: Mean and scale of the noise on it, as multiples of those of the system's noise.
    share: Positive = 1.0
    #: How many messages it takes to raise the count by 1.
    messages: Positive = 1.0
    #: Whether the count falls where the first one rises.
    reversed: bool = False


class SettingModel(OriginModel):
    """Published noise."""

    name: Text
    compositions: Round | None = None


class CountSettingModel(SettingModel):
    """Published noise on counts."""

    noise: Noise
    mean: Number
    scale: Number


class ServersSettingModel(SettingModel):
    """How many servers, all of them honest, add how many messages each, on average."""

    servers: Natural
    messages: Positive

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

    #: The counts.
    counts: tuple[ObservedCount, ...]
    #: The readings of "noise on a count" to size and judge, the protocol's own first.
    readings: tuple[str, ...]

    setting_model: ClassVar = CountSettingModel

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
    def setting_model(self) -> type[SettingModel]:
        """The model of published noise: the amount, or the servers that add messages."""
        if self.amount.name == "mean":
            return ServersSettingModel
        fields: dict[str, Any] = {self.amount.name: (Number, ...)}
        return create_model(f"{self.kind.__name__}Setting", __base__=SettingModel, **fields)

    def mechanism(self, amount: float) -> Pair:
        """Return the pair with that amount of noise: a scale, the mean of a Poisson number, or the p of a response."""
        construct: Callable[..., Pair] = self.kind
        return construct(**{self.amount.name: amount}, **dict(self.parameters))


@dataclass(frozen=True)
class PublishedSetting:
    """Noise that was published."""

    #: Its name and its source.
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

    #: Text.
    name: str
    description: str
    #: Citations.
    sources: tuple[str, ...]
    #: The observation of a round.
    observation: NoisyCounts | NoiseObservation
    #: Noise that was published.
    settings: tuple[PublishedSetting, ...]
    #: Targets, at least one.
    targets: tuple[SystemTarget, ...]


def judge(mechanism: Pair, target: Target) -> Bracket:
    """Bound δ of a mechanism narrowly enough to decide whether it meets a target, if bounds can."""
    found = NOTHING_KNOWN
    for tolerance in _TOLERANCES:
        found = found.narrowed(computed_bracket(mechanism, target, tolerance))
        if found.verdict(target.delta) is not Verdict.UNDECIDED:
            break
    return found


def size_system(
    system: System,
    target: Target,
    *,
    noise: CountNoise | None = None,
    reading: str | None = None,
    **options: Any,
) -> SizedNoise:
    """Return the smallest noise of a system that provably meets a target, one of the system's or any other.

    `noise` (one of `COUNT_NOISES`; by default that of the first published setting, or else Laplace) and `reading` (by
    default the protocol's own) are for noisy counts; of these mean and scale are those of the system's noise, of which
    each count has its share, and ``expected_messages`` are those on all counts. `options` go to `pbdist.size`.
    """
    family, parameters = system_family(system, noise, reading)
    point = {name: getattr(target, name) for name in ("compositions", "epsilon", "delta")}
    return size(family, **point, **parameters, **options)


def system_family(
    system: System, noise: CountNoise | None = None, reading: str | None = None
) -> tuple[type[Pair] | CountFamily, dict[str, Any]]:
    """Return the family of a system's noise, and its parameters, as `pbdist.size` takes them."""
    observation = system.observation
    if not isinstance(observation, NoisyCounts):
        for name, value in (("noise", noise), ("reading", reading)):
            if value is not None:
                raise InvalidInputError(f"{name}: {system.name} has no noisy counts, got {shown(value)}")
        return observation.kind, dict(observation.parameters)
    chosen = reading or observation.readings[0]
    if chosen not in observation.readings:
        known = ", ".join(observation.readings)
        raise InvalidInputError(f"reading: expected one of {known} for {system.name}, got {shown(reading)}")
    published = next((setting.noise for setting in system.settings if setting.noise is not None), Laplace)
    return observation.family(noise or published, chosen), {}


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


def find_system(systems: tuple[System, ...], name: str) -> System:
    """Return the system of that name; the error lists the names."""
    known = {system.name: system for system in systems}
    if name not in known:
        near = did_you_mean(name, known)
        raise InvalidInputError(f"system: expected one of {', '.join(known)}, got {shown(name)}{near}")
    return known[name]


def _systems(document: Document) -> tuple[System, ...]:
    model = model_at(document, (), FileModel, joint="of")
    names: set[str] = set()

    def read(entry: Document) -> System:
        system = _system(entry, model.sources)
        if system.name in names:
            entry.at("name").refuse(f"expected each name once, got {shown(system.name)} again")
        names.add(system.name)
        return system

    return tuple(read_each(read, document.at("systems").items()))


def _system(entry: Document, sources: Mapping[str, str]) -> System:
    model = model_at(entry, (), SystemModel, joint="of")
    citations = tuple(_citation(entry.at("sources", place), sources) for place in range(len(model.sources)))
    observation = _observation(entry.at("observation"))
    return System(
        name=model.name,
        description=model.description,
        sources=citations,
        observation=observation,
        settings=tuple(_setting(entry.at("settings", i), observation, sources) for i in range(len(model.settings))),
        targets=tuple(_target(one, sources) for one in entry.at("targets").items()),
    )


def _observation(entry: Document) -> NoisyCounts | NoiseObservation:
    kind = entry.data.get("kind")
    if kind == "counts":
        return _noisy_counts(entry)
    known = {name: one for name, one in MECHANISMS.items() if one.in_studies and _is_observed(one)}
    if kind not in known:
        near = did_you_mean(kind, ("counts", *known), other_kinds())
        expected = f"expected a kind among counts, {', '.join(known)}, got {shown(kind)}{near}"
        (entry.at("kind") if "kind" in entry.data else entry).refuse(expected)
    fields: dict[str, Any] = {"kind": (str, ...)}
    for one in parameters_of(known[kind]).values():
        if one.domain.form is Form.NUMBER and not one.sized:
            fields[one.name] = (Number, ...) if one.required else (Number | None, None)
    model = create_model(f"{kind}Observation", __config__=STRICT, **fields)
    found = model_at(entry, (), model, joint="of").model_dump(exclude={"kind"}, exclude_none=True)
    # Mechanisms that count take whole numbers as integers.
    numbers = ((name, int(value) if value.is_integer() else value) for name, value in found.items())
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


def _noisy_counts(entry: Document) -> NoisyCounts:
    model = model_at(entry, (), CountsModel, joint="of")
    if len(set(model.readings)) < len(model.readings):
        entry.at("readings").refuse(f"expected each reading once, got {shown(model.readings)}")
    counts = (model_at(one, (), ObservedCount, joint="of") for one in entry.at("counts").items())
    return NoisyCounts(tuple(counts), tuple(model.readings))


def _setting(
    entry: Document, observation: NoisyCounts | NoiseObservation, sources: Mapping[str, str]
) -> PublishedSetting:
    model: Any = model_at(entry, (), observation.setting_model, joint="of")
    origin = _origin(entry, model, sources)
    noise = mean = scale = None
    pairs: tuple[Pair, ...]
    try:
        if isinstance(observation, NoiseObservation):
            pairs = (observation.mechanism(getattr(model, observation.amount.name)),)
        else:
            noise, mean, scale = model.noise, model.mean, model.scale
            pairs = tuple(observation.family(noise, reading).pair(mean, scale) for reading in observation.readings)
    except InvalidInputError as error:
        entry.refuse(str(error))
    return PublishedSetting(model.name, origin, noise, mean, scale, model.compositions, pairs)


def _target(entry: Document, sources: Mapping[str, str]) -> SystemTarget:
    model = model_at(entry, (), SourcedTarget, joint="of")
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        entry.refuse(problem)
    epsilon = model.epsilon or math.log(model.exp_epsilon or 1.0)
    origin = _origin(entry, model, sources)
    return SystemTarget(compositions=model.compositions, epsilon=epsilon, delta=model.delta, origin=origin)


def _origin(entry: Document, model: Any, sources: Mapping[str, str]) -> str:
    """Return in a few words the source of a figure."""
    if model.source is None and model.example is None:
        entry.refuse("expected a source or an example, got neither")
    parts = [] if model.example is None else [f"{model.example} is an example"]
    if model.source is not None:
        _citation(entry.at("source"), sources)
        parts.insert(0, model.source if model.where is None else f"{model.source}, {model.where}")
    return "; ".join(parts if model.note is None else [*parts, model.note])


def _citation(entry: Document, sources: Mapping[str, str]) -> str:
    key = entry.data
    if not isinstance(key, str) or key not in sources:
        near = did_you_mean(key, sources)
        entry.refuse(f"expected one of the sources {', '.join(sources)}, got {shown(key)}{near}")
    return sources[key]
