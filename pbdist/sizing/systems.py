"""Read the systems whose noise is sized from a YAML file, ``data/systems.yaml`` by default.

Every figure has its source or is called an example. An error names the file, the line, the field, what was expected and
what was found.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, PlainValidator, create_model

from pbdist.arguments import MAX_EPSILON, problem_of_either
from pbdist.errors import InvalidInputError, StudyFileError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    READINGS,
    Form,
    Gaussian,
    Laplace,
    NoisyCount,
    Product,
    Reversed,
    noise_parameter,
    parameters_of,
)
from pbdist.mechanisms.pair import Pair
from pbdist.results import NOTHING_KNOWN, Bracket, Verdict
from pbdist.sizing.api import size
from pbdist.sizing.families import CountFamily
from pbdist.sizing.goal import Goal, SizedNoise, computed_bracket
from pbdist.study.document import Document, Keys, Problems, read_document
from pbdist.study.fields import other_kinds
from pbdist.study.grids import GridError
from pbdist.study.models import STRICT, Delta, Number, Positive, Round, model_at, refuse, value_at
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue


def _natural(value: JsonValue) -> int:
    if type(value) is not int or value < 1:
        raise GridError(f"expected a whole number of at least 1, got {shown(value)}")
    return value


def _text(value: JsonValue) -> str:
    if not isinstance(value, str) or not value.strip():
        raise GridError(f"expected a text, got {shown(value)}")
    return " ".join(value.split())


Text = Annotated[str, PlainValidator(_text)]


class FileModel(BaseModel):
    """The file."""

    model_config = STRICT
    format: int
    systems: list[Any]
    sources: dict[str, Any] = {}


class SystemModel(BaseModel):
    """One system."""

    model_config = STRICT
    name: Text
    description: Text
    observation: dict[str, Any]
    targets: list[Any]
    sources: list[Any] = []
    settings: list[Any] = []


class OriginModel(BaseModel):
    """Where a figure is from."""

    model_config = STRICT
    source: str | None = None
    where: Text | None = None
    note: Text | None = None
    example: Text | None = None


class TargetModel(OriginModel):
    """A goal."""

    compositions: Round
    delta: Delta
    epsilon: Number | None = None
    exp_epsilon: Number | None = None


class CountsModel(BaseModel):
    """Counts that are seen together."""

    model_config = STRICT
    kind: str
    counts: list[Any]
    readings: list[Any] = list(READINGS)


class ObservedCount(BaseModel):
    """One of several counts that the adversary sees together."""

    model_config = STRICT
    #: By how much one user's action changes the true count, at least 1.
    shift: Annotated[int, PlainValidator(_natural)]
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

    noise: str
    mean: Number
    scale: Number


class ServersSettingModel(SettingModel):
    """How many servers, all of them honest, add how many messages each, on average."""

    servers: Annotated[int, PlainValidator(_natural)]
    messages: Positive


def observed_kinds() -> dict[str, type[Pair]]:
    """Return the kinds that have one amount of noise, and need no other parameters than numbers."""
    found: dict[str, type[Pair]] = {}
    for name, kind in MECHANISMS.items():
        needed = [one for one in parameters_of(kind).values() if one.required]
        if kind.in_studies and noise_parameter(kind) and all(one.domain.form is Form.NUMBER for one in needed):
            found[name] = kind
    return found


def _amount_of(kind: type[Pair]) -> str:
    """Return the name of the parameter that is the amount of noise."""
    sized = noise_parameter(kind)
    if sized is None:
        raise InvalidInputError(f"kind: expected one that has an amount of noise, got {kind.__name__}")
    return sized.name


def _observation_model(kind: type[Pair]) -> type[BaseModel]:
    """Return the model of what describes an observation: the parameters of the mechanism but its amount of noise."""
    fields: dict[str, Any] = {"kind": (str, ...)}
    for one in parameters_of(kind).values():
        if one.domain.form is Form.NUMBER and not one.sized:
            fields[one.name] = (Number, ...) if one.required else (Number | None, None)
    return create_model(f"{kind.__name__}Observation", __config__=STRICT, **fields)


def _setting_model(observation: "NoisyCounts | NoiseObservation") -> type[SettingModel]:
    """Return the model of published noise: the amount, or the servers that add messages."""
    if isinstance(observation, NoisyCounts):
        return CountSettingModel
    amount = _amount_of(observation.kind)
    if amount == "mean":
        return ServersSettingModel
    fields: dict[str, Any] = {amount: (Number, ...)}
    return create_model(f"{observation.kind.__name__}Setting", __base__=SettingModel, **fields)


#: Tolerances of `judge`, one after the other until the verdict is YES or NO.
_TOLERANCES = (1e-3, 1e-4, 1e-6)
#: The noise that counts can have.
CountNoise: TypeAlias = type[Laplace] | type[Gaussian]


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

    def mechanism(self, noise: CountNoise, mean: float, scale: float, reading: str | None = None) -> Pair:
        """Return the worst-case pair of one round.

        Raises
        ------
        InvalidInputError
            If a parameter is out of its range.
        """
        pairs = self._pairs(noise, mean, scale, reading)
        factors = [Reversed(pair) if count.reversed else pair for count, pair in zip(self.counts, pairs, strict=True)]
        return factors[0] if len(factors) == 1 else Product(*factors)

    def expected_messages(self, noise: CountNoise, mean: float, scale: float, reading: str | None = None) -> float:
        """Return how many messages the noise on all counts takes a round on average; about 12 digits, no bound."""
        pairs = self._pairs(noise, mean, scale, reading)
        return sum(count.messages * pair.expected_count for count, pair in zip(self.counts, pairs, strict=True))

    def _pairs(self, noise: CountNoise, mean: float, scale: float, reading: str | None) -> list[NoisyCount]:
        chosen = self.readings[0] if reading is None else reading
        return [
            NoisyCount(noise(count.share * scale), count.share * mean, count.shift, chosen) for count in self.counts
        ]


@dataclass(frozen=True)
class NoiseObservation:
    """One outcome of a mechanism that has a single amount of noise."""

    #: The class of the mechanism.
    kind: type[Pair]
    #: The other arguments of its constructor, by name.
    parameters: tuple[tuple[str, float], ...]

    def mechanism(self, amount: float) -> Pair:
        """Return the pair with that amount of noise: a scale, the mean of a Poisson number, or the p of a response.

        Raises
        ------
        InvalidInputError
            If a parameter is out of its range.
        """
        construct: Callable[..., Pair] = self.kind
        return construct(**{_amount_of(self.kind): amount}, **dict(self.parameters))


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


@dataclass(frozen=True)
class SystemTarget(Goal):
    """A goal of a system, and where it is from."""

    origin: str


@dataclass(frozen=True)
class System:
    """A system, its published noise and its goals."""

    #: Text.
    name: str
    description: str
    #: Citations.
    sources: tuple[str, ...]
    #: What is seen in a round.
    observation: NoisyCounts | NoiseObservation
    #: Noise that was published.
    settings: tuple[PublishedSetting, ...]
    #: Goals, at least one.
    targets: tuple[SystemTarget, ...]


def judge(mechanism: Pair, goal: Goal) -> Bracket:
    """Bound δ of a mechanism narrowly enough to tell whether it meets a goal, if the bounds can tell."""
    found = NOTHING_KNOWN
    for tolerance in _TOLERANCES:
        found = found.narrowed(computed_bracket(mechanism, goal, tolerance))
        if found.verdict(goal.delta) in (Verdict.YES, Verdict.NO):
            break
    return found


def size_system(
    system: System,
    target: SystemTarget,
    *,
    noise: CountNoise | None = None,
    reading: str | None = None,
    tolerance: float = 0.01,
    **options: Any,
) -> SizedNoise:
    """Return the smallest noise of a system that provably meets a target, with its certificate.

    Parameters
    ----------
    system : System
    target : SystemTarget
        One of the system's, or any other.
    noise : Laplace or Gaussian, optional
        For noisy counts: the class of the noise, by default that of the first published setting, or else Laplace.
    reading : str, optional
        For noisy counts: by default the protocol's own.
    tolerance : float, optional
        How much smaller the refuted noise is, relatively.
    **options
        Passed on to `pbdist.size`.

    Returns
    -------
    SizedNoise
        For noisy counts mean and scale are those of the system's noise, of which each count has its share, and
        ``expected_messages`` are those on all counts.

    Raises
    ------
    InvalidInputError
        If noise or reading is given to a system without noisy counts, the reading is none of the system's, or no noise
        is found that meets the target.
    PrecisionError
        If the bounds cannot tell δ from the goal where that decides.
    """
    family, parameters = system_family(system, noise, reading)
    return size(
        family,
        compositions=target.compositions,
        epsilon=target.epsilon,
        delta=target.delta,
        tolerance=tolerance,
        **parameters,
        **options,
    )


def system_family(
    system: System, noise: CountNoise | None = None, reading: str | None = None
) -> tuple[type[Pair] | CountFamily, dict[str, Any]]:
    """Return the family of a system's noise, and its parameters, as `pbdist.size` takes them.

    Raises
    ------
    InvalidInputError
        If noise or reading is given to a system without noisy counts, or the reading is none of the system's.
    """
    observation = system.observation
    if not isinstance(observation, NoisyCounts):
        for name, value in (("noise", noise), ("reading", reading)):
            if value is not None:
                raise InvalidInputError(f"{name}: expected none for {system.name}, got {shown(value)}")
        return observation.kind, dict(observation.parameters)
    chosen = reading or observation.readings[0]
    if chosen not in observation.readings:
        known = ", ".join(observation.readings)
        raise InvalidInputError(f"reading: expected one of {known} for {system.name}, got {shown(reading)}")
    published = next((setting.noise for setting in system.settings if setting.noise is not None), Laplace)
    kind = noise or published
    family = CountFamily(
        lambda mean, scale: observation.mechanism(kind, mean, scale, chosen),
        weights=tuple(count.messages for count in observation.counts),
    )
    return family, {}


#: The version of the file's format.
SYSTEMS_FORMAT = 1

_FILE = "systems.yaml"
_NOISES: dict[str, CountNoise] = {"Laplace": Laplace, "Gaussian": Gaussian}


def default_systems_path() -> Path:
    """Return the path of the file that comes with pbdist: in the installed package, else in the checkout."""
    package = Path(str(files("pbdist")))
    installed = package / _FILE
    return installed if installed.is_file() else package.parent / "data" / _FILE


def load_systems(path: str | Path | None = None) -> tuple[System, ...]:
    """Read and check the systems of a file, by default of the one that comes with pbdist.

    Guaranteed: every published mechanism has been constructed, so that what is returned can be judged.

    Raises
    ------
    StudyFileError
        For each thing that is wrong: ``FILE:LINE: field.path: expected .., got ..``.
    """
    return read_document(default_systems_path() if path is None else Path(path), _systems, "systems")


def find_system(systems: tuple[System, ...], name: str) -> System:
    """Return the system of that name.

    Raises
    ------
    InvalidInputError
        There is none; the text lists the names.
    """
    for system in systems:
        if system.name == name:
            return system
    known = [system.name for system in systems]
    near = did_you_mean(name, known)
    raise InvalidInputError(f"system: expected one of {', '.join(known)}, got {shown(name)}{near}")


def _systems(document: Document) -> tuple[System, ...]:
    model = model_at(document, (), FileModel, joint="of")
    if model.format != SYSTEMS_FORMAT:
        refuse(document, ("format",), f"expected {SYSTEMS_FORMAT}, got {shown(model.format)}")
    for key, citation in model.sources.items():
        if not isinstance(citation, str) or not citation.strip():
            refuse(document, ("sources", key), f"expected a citation, got {shown(citation)}")
    if not model.systems:
        refuse(document, ("systems",), "expected at least one system, got []")
    found: dict[str, System] = {}
    problems = Problems()
    for position in range(len(model.systems)):
        place: Keys = ("systems", position)
        with problems.collected():
            system = _system(document, place, model.sources)
            if system.name in found:
                refuse(document, (*place, "name"), f"expected each name once, got {shown(system.name)} again")
            found[system.name] = system
    problems.refuse()
    return tuple(found.values())


def _system(document: Document, place: Keys, sources: dict[str, str]) -> System:
    model = model_at(document, place, SystemModel, joint="of")
    citations = tuple(
        _citation(document, (*place, "sources", position), key, sources) for position, key in enumerate(model.sources)
    )
    observation = _observation(document, (*place, "observation"))
    if not model.targets:
        refuse(document, (*place, "targets"), "expected at least one target, got []")
    return System(
        name=model.name,
        description=model.description,
        sources=citations,
        observation=observation,
        settings=tuple(
            _setting(document, (*place, "settings", position), observation, sources)
            for position in range(len(model.settings))
        ),
        targets=tuple(
            _target(document, (*place, "targets", position), sources) for position in range(len(model.targets))
        ),
    )


def _observation(document: Document, place: Keys) -> NoisyCounts | NoiseObservation:
    kind = value_at(document, place).get("kind")
    if kind == "counts":
        model = model_at(document, place, CountsModel, joint="of")
        if not model.counts:
            refuse(document, (*place, "counts"), "expected at least one count, got []")
        for position, reading in enumerate(model.readings):
            if reading not in READINGS:
                near = did_you_mean(reading, READINGS)
                problem = f"expected one of {', '.join(READINGS)}, got {shown(reading)}{near}"
                refuse(document, (*place, "readings", position), problem)
        if not model.readings or len(set(model.readings)) < len(model.readings):
            refuse(document, (*place, "readings"), f"expected readings, each once, got {shown(model.readings)}")
        counts = (
            model_at(document, (*place, "counts", position), ObservedCount, joint="of")
            for position in range(len(model.counts))
        )
        return NoisyCounts(tuple(counts), tuple(model.readings))
    known = observed_kinds()
    if kind not in known:
        at = (*place, "kind") if "kind" in value_at(document, place) else place
        near = did_you_mean(kind, ("counts", *known), other_kinds())
        refuse(document, at, f"expected a kind among counts, {', '.join(known)}, got {shown(kind)}{near}")
    found = model_at(document, place, _observation_model(known[kind]), joint="of").model_dump(exclude_none=True)
    observation = NoiseObservation(
        known[kind], tuple((name, _whole(value)) for name, value in found.items() if name != "kind")
    )
    try:
        # An amount that is valid: an error is about the other parameters.
        observation.mechanism(parameters_of(known[kind])[_amount_of(known[kind])].examples[0])
    except InvalidInputError as error:
        refuse(document, place, str(error))
    return observation


def _setting(
    document: Document, place: Keys, observation: NoisyCounts | NoiseObservation, sources: dict[str, str]
) -> PublishedSetting:
    model: Any = model_at(document, place, _setting_model(observation), joint="of")
    origin = _origin(document, place, model, sources)
    try:
        if isinstance(observation, NoiseObservation):
            # The sum of independent Poisson numbers is a Poisson number. Only honest servers hide anything: the file
            # counts those alone.
            servers = isinstance(model, ServersSettingModel)
            pair = observation.mechanism(
                model.servers * model.messages if servers else getattr(model, _amount_of(observation.kind))
            )
            return PublishedSetting(model.name, origin, None, None, None, model.compositions, (pair,))
        if model.noise not in _NOISES:
            near = did_you_mean(model.noise, _NOISES, other_kinds())
            refuse(document, (*place, "noise"), f"expected one of {', '.join(_NOISES)}, got {shown(model.noise)}{near}")
        noise = _NOISES[model.noise]
        pairs = tuple(observation.mechanism(noise, model.mean, model.scale, name) for name in observation.readings)
        return PublishedSetting(model.name, origin, noise, model.mean, model.scale, model.compositions, pairs)
    except StudyFileError:
        raise
    except InvalidInputError as error:
        refuse(document, place, str(error))


def _target(document: Document, place: Keys, sources: dict[str, str]) -> SystemTarget:
    model = model_at(document, place, TargetModel, joint="of")
    problem = problem_of_either(epsilon=model.epsilon, exp_epsilon=model.exp_epsilon)
    if problem is not None:
        refuse(document, place, problem)
    if model.exp_epsilon is not None:
        if model.exp_epsilon < 1.0:
            refuse(document, (*place, "exp_epsilon"), f"expected e^ε of at least 1, got {model.exp_epsilon!r}")
        epsilon = math.log(model.exp_epsilon)
    else:
        epsilon = model.epsilon or 0.0
    if not 0.0 <= epsilon <= MAX_EPSILON:
        refuse(document, (*place, "epsilon"), f"expected ε from 0 to {MAX_EPSILON:g}, got {epsilon!r}")
    return SystemTarget(model.compositions, epsilon, model.delta, _origin(document, place, model, sources))


def _origin(document: Document, place: Keys, model: Any, sources: dict[str, str]) -> str:
    """Return in a few words the source of a figure."""
    if model.source is None and model.example is None:
        refuse(document, place, "expected a source, or what of it is an example, got neither")
    parts = [] if model.example is None else [f"{model.example} is an example"]
    if model.source is not None:
        _citation(document, (*place, "source"), model.source, sources)
        parts.insert(0, model.source if model.where is None else f"{model.source}, {model.where}")
    return "; ".join(parts if model.note is None else [*parts, model.note])


def _citation(document: Document, place: Keys, key: Any, sources: dict[str, str]) -> str:
    if not isinstance(key, str) or key not in sources:
        near = did_you_mean(key, sources)
        refuse(document, place, f"expected one of the sources {', '.join(sources)}, got {shown(key)}{near}")
    return " ".join(sources[key].split())


def _whole(value: float) -> float:
    """Return a whole number as an integer, which is what a mechanism that counts takes."""
    return int(value) if value.is_integer() else value
