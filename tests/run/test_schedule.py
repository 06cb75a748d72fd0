import pytest

from pbdist.errors import InvalidInputError
from pbdist.run.computing import REFERENCES, modelled_seconds, speed
from pbdist.table import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_machine_as_fast_as_the_model_has_speed_1_and_one_half_as_fast_2(method: str) -> None:
    modelled = modelled_seconds(method)
    assert set(modelled) == {study.name for study in REFERENCES if study.method == method}
    assert all(0.001 <= seconds <= 2.0 for seconds in modelled.values())
    assert speed({name: [seconds] for name, seconds in modelled.items()}, method) == pytest.approx(1.0)
    # The fastest run counts, and one reference is enough.
    name, seconds = next(iter(modelled.items()))
    assert speed({name: [9.0 * seconds, 2.0 * seconds]}, method) == pytest.approx(2.0)


@pytest.mark.parametrize("measured", [{}, {"laplace": []}, {"laplace": [0.0]}, {"unknown": [1.0]}])
def test_nothing_measured_is_refused(measured: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidInputError, match="measured: expected times"):
        speed(measured, "tight")
