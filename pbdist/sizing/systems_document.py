"""The format of the file of systems: one model for each mapping, with the keys as its fields."""

from typing import Annotated, Any

from pydantic import BaseModel, PlainValidator

from pbdist.mechanisms import READINGS
from pbdist.study import grids
from pbdist.study.document import shown
from pbdist.study.parameters import custom_error
from pbdist.study.refusals import STRICT
from pbdist.types import JsonValue


def _number(value: JsonValue) -> float:
    try:
        return grids.number(value)
    except grids.GridError as problem:
        raise custom_error(problem) from None


def _rounds(value: JsonValue) -> int:
    try:
        return grids.integers([value])[0]
    except grids.GridError as problem:
        raise custom_error(grids.GridError(problem.problem)) from None


def _delta(value: JsonValue) -> float:
    delta = _number(value)
    if not 0.0 < delta < 1.0:
        raise custom_error(grids.GridError(f"expected a δ above 0 and below 1, got {shown(value)}"))
    return delta


def _natural(value: JsonValue) -> int:
    if type(value) is not int or value < 1:
        raise custom_error(grids.GridError(f"expected a whole number of at least 1, got {shown(value)}"))
    return value


def _positive(value: JsonValue) -> float:
    share = _number(value)
    if share <= 0.0:
        raise custom_error(grids.GridError(f"expected a number above 0, got {shown(value)}"))
    return share


def _text(value: JsonValue) -> str:
    if not isinstance(value, str) or not value.strip():
        raise custom_error(grids.GridError(f"expected a text, got {shown(value)}"))
    return " ".join(value.split())


Number = Annotated[float, PlainValidator(_number)]
Rounds = Annotated[int, PlainValidator(_rounds)]
Delta = Annotated[float, PlainValidator(_delta)]
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

    compositions: Rounds
    delta: Delta
    epsilon: Number | None = None
    exp_epsilon: Number | None = None


class CountsModel(BaseModel):
    """Counts that are seen together."""

    model_config = STRICT
    kind: str
    counts: list[Any]
    readings: list[Any] = list(READINGS)


class CountModel(BaseModel):
    """One of these counts."""

    model_config = STRICT
    shift: Annotated[int, PlainValidator(_natural)]
    share: Annotated[float, PlainValidator(_positive)] = 1.0
    messages: Annotated[float, PlainValidator(_positive)] = 1.0
    reversed: bool = False


class AdditiveModel(BaseModel):
    """Noise that is added."""

    model_config = STRICT
    kind: str
    sensitivity: Number = 1.0


class SampledModel(AdditiveModel):
    """Noise on a sample."""

    rate: Number


class ResponseModel(BaseModel):
    """Randomized response."""

    model_config = STRICT
    kind: str


class SettingModel(OriginModel):
    """Published noise."""

    name: Text
    compositions: Rounds | None = None


class CountSettingModel(SettingModel):
    """Published noise on counts."""

    noise: str
    mean: Number
    scale: Number


class ServersSettingModel(SettingModel):
    """How many servers, all of them honest, add how many messages each, on average."""

    servers: Annotated[int, PlainValidator(_natural)]
    messages: Annotated[float, PlainValidator(_positive)]


class ScaleSettingModel(SettingModel):
    """A published scale."""

    scale: Number


class ResponseSettingModel(SettingModel):
    """A published probability of the truth."""

    p: Number


#: The kinds of observation that have one amount of noise: the models of what describes them and of their settings.
KINDS: dict[str, tuple[type[BaseModel], type[SettingModel]]] = {
    "Gaussian": (AdditiveModel, ScaleSettingModel),
    "Laplace": (AdditiveModel, ScaleSettingModel),
    "DiscreteLaplace": (AdditiveModel, ScaleSettingModel),
    "DiscreteGaussian": (AdditiveModel, ScaleSettingModel),
    "SubsampledGaussian": (SampledModel, ScaleSettingModel),
    "Poisson": (AdditiveModel, ServersSettingModel),
    "RandomizedResponse": (ResponseModel, ResponseSettingModel),
}
