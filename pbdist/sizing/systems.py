"""Read the systems whose noise is sized from a YAML file, ``data/systems.yaml`` by default.

Every figure has its source or is called an example. An error names the file, the line, the field, what was expected and
what was found.
"""

import math
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pbdist.arguments import MAX_EPSILON, problem_of_either
from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import MECHANISMS, READINGS, Gaussian, Laplace
from pbdist.sizing.system_sizing import (
    CountNoise,
    NoiseObservation,
    NoisyCounts,
    ObservedCount,
    PublishedSetting,
    System,
    SystemTarget,
)
from pbdist.sizing.systems_document import (
    KINDS,
    CountModel,
    CountSettingModel,
    CountsModel,
    FileModel,
    ResponseSettingModel,
    ServersSettingModel,
    SettingModel,
    SystemModel,
    TargetModel,
)
from pbdist.study.document import Document, Keys, Problems, read_document, shown
from pbdist.study.hints import other_kinds
from pbdist.study.refusals import refuse, refuse_invalid
from pbdist.suggestions import did_you_mean
from pbdist.types import JsonValue

#: The version of the file's format.
SYSTEMS_FORMAT = 1

_FILE = "systems.yaml"
_NOISES: dict[str, CountNoise] = {"Laplace": Laplace, "Gaussian": Gaussian}

_Model = TypeVar("_Model", bound=BaseModel)


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
    model = _validated(document, (), FileModel)
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
    model = _validated(document, place, SystemModel)
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
    kind = _at(document, place).get("kind")
    if kind == "counts":
        model = _validated(document, place, CountsModel)
        if not model.counts:
            refuse(document, (*place, "counts"), "expected at least one count, got []")
        for position, reading in enumerate(model.readings):
            if reading not in READINGS:
                near = did_you_mean(reading, READINGS)
                problem = f"expected one of {', '.join(READINGS)}, got {shown(reading)}{near}"
                refuse(document, (*place, "readings", position), problem)
        if not model.readings or len(set(model.readings)) < len(model.readings):
            refuse(document, (*place, "readings"), f"expected readings, each once, got {shown(model.readings)}")
        counts = [
            _validated(document, (*place, "counts", position), CountModel) for position in range(len(model.counts))
        ]
        return NoisyCounts(
            tuple(ObservedCount(count.shift, count.share, count.reversed, count.messages) for count in counts),
            tuple(model.readings),
        )
    known = tuple(name for name in KINDS if name in MECHANISMS)
    if kind not in known:
        at = (*place, "kind") if "kind" in _at(document, place) else place
        near = did_you_mean(kind, ("counts", *known), other_kinds())
        refuse(document, at, f"expected a kind among counts, {', '.join(known)}, got {shown(kind)}{near}")
    found = _validated(document, place, KINDS[kind][0]).model_dump()
    observation = NoiseObservation(
        MECHANISMS[kind], tuple((name, _whole(value)) for name, value in found.items() if name != "kind")
    )
    try:
        # 1/2 is a valid amount of noise of every kind: an error is about the other parameters.
        observation.mechanism(0.5)
    except InvalidInputError as error:
        refuse(document, place, str(error))
    return observation


def _setting(
    document: Document, place: Keys, observation: NoisyCounts | NoiseObservation, sources: dict[str, str]
) -> PublishedSetting:
    model: Any = _validated(document, place, _setting_model(observation))
    origin = _origin(document, place, model, sources)
    try:
        if isinstance(observation, NoiseObservation):
            pair = observation.mechanism(_amount(model))
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


def _setting_model(observation: NoisyCounts | NoiseObservation) -> type[SettingModel]:
    return CountSettingModel if isinstance(observation, NoisyCounts) else KINDS[observation.kind.__name__][1]


def _amount(model: Any) -> float:
    """Return the one number that a published setting has."""
    # The sum of independent Poisson numbers is a Poisson number. Only honest servers hide anything: the file counts
    # those alone.
    if isinstance(model, ServersSettingModel):
        return model.servers * model.messages
    return float(model.p if isinstance(model, ResponseSettingModel) else model.scale)


def _target(document: Document, place: Keys, sources: dict[str, str]) -> SystemTarget:
    model = _validated(document, place, TargetModel)
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


def _validated(document: Document, place: Keys, model: type[_Model]) -> _Model:
    """Return the mapping at `place` as `model` reads it."""
    value = _at(document, place)
    if not isinstance(value, dict):
        refuse(document, place, f"expected a mapping of {', '.join(model.model_fields)}, got {shown(value)}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        refuse_invalid(document, error, model, keys=place)


def _at(document: Document, place: Keys) -> JsonValue:
    value = document.data
    for part in place:
        value = value[part]
    return value


def _whole(value: float) -> float:
    """Return a whole number as an integer, which is what a mechanism that counts takes."""
    return int(value) if value.is_integer() else value
