"""How fast a worker is against the machine on which the cost model was measured: a few cells, and what they take there.

Pure: whoever runs them measures the seconds.
"""

import math
from collections.abc import Mapping, Sequence

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Gaussian, Laplace, RandomizedResponse, SubsampledGaussian
from pbdist.study.plan import cell_cost
from pbdist.study.spec import Cell, StudySpec

__all__ = ["REFERENCES", "modelled_seconds", "speed"]


def _reference(name: str, cell: Cell, *, tight: bool) -> StudySpec:
    return StudySpec(
        name=name,
        cells=(cell,),
        method="tight" if tight else "buckets",
        tolerance=1e-3 if tight else None,
        buckets=None if tight else 20_000,
        compositions=(1, 16, 256, 4096),
        epsilon=(0.25, 0.5, 1.0),
    )


#: Studies of one cell each, of a few milliseconds to about half a second, which between them take every way of the
#: engines: few frequencies, transforms, a lattice, a mixture, privacy buckets.
REFERENCES: tuple[StudySpec, ...] = (
    _reference("laplace", Cell("Laplace", Laplace(40.0), None), tight=True),
    _reference("gaussian", Cell("Gaussian", Gaussian(80.0, 1.0, (-800.0, 800.0)), None), tight=True),
    _reference("responses", Cell("RandomizedResponse", RandomizedResponse(0.51), None), tight=True),
    _reference("sampled", Cell("SubsampledGaussian", SubsampledGaussian(4.0, 0.05), None), tight=True),
    _reference("buckets", Cell("Laplace", Laplace(40.0), None), tight=False),
)


def modelled_seconds(method: str) -> Mapping[str, float]:
    """Return, by name, what the model says of the references of a method."""
    return {study.name: cell_cost(study, study.cells[0]).seconds for study in REFERENCES if study.method == method}


def speed(measured: Mapping[str, Sequence[float]], method: str) -> float:
    """Return by what projected seconds are to be multiplied on a worker.

    Parameters
    ----------
    measured : mapping of str to sequence of float
        For some of the references of the method, by name, the seconds of some runs. The fastest of each counts: all
        that disturbs a run makes it longer.
    method : str

    Returns
    -------
    float
        The geometric mean of measured over projected seconds: above 1 for a slower machine.

    Raises
    ------
    InvalidInputError
        If nothing was measured, or a time is not positive.
    """
    modelled = modelled_seconds(method)
    if not measured or not measured.keys() <= modelled.keys() or not all(measured.values()):
        raise InvalidInputError(f"measured: expected times of some of {', '.join(modelled)}, got {dict(measured)}")
    fastest = {name: min(seconds) for name, seconds in measured.items()}
    if min(fastest.values()) <= 0.0:
        raise InvalidInputError(f"measured: expected times above 0, got {min(fastest.values())!r}")
    return math.exp(math.fsum(math.log(fastest[name] / modelled[name]) for name in fastest) / len(fastest))
