"""What enclosures add for rounding, term by term, against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from pbdist.enclosures.allocation import Dominated, Dominating, dominated_pair, dominating_pair
from pbdist.enclosures.measures import Level, gathered, product, scaled, split_to_both
from pbdist.types import FloatArray

NO_EDGES = np.zeros(0)


def level(masses: FloatArray, *, first: int = 1, exponent: int = 0, error: float = 0.0) -> Level:
    """Half of the errors are a part of the masses, the others extra ones."""
    return Level(exponent, first, masses, 0.5 * error, 0.5 * masses * error if error else None)


def errors(found: Level) -> FloatArray:
    extra = np.zeros(found.size) if found.extra is None else found.extra
    return found.relative * found.masses + extra


def exact(values: FloatArray) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


def assert_within(found: Level, truth: list[Fraction]) -> None:
    for mass, error, value in zip(exact(found.masses), exact(errors(found)), truth, strict=True):
        assert abs(mass - value) <= error


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_a_dominating_pair_has_no_smaller_masses(shift: float) -> None:
    masses = np.random.default_rng(0).random(40)
    found = dominating_pair(Dominating((level(masses),), 0.01, 3, shift), 0.7).loss_masses(NO_EDGES)
    sums = [Fraction(0.7) * place for place in range(1, 41)]
    for mass, total, a, b in zip(
        exact(masses), sums, exact(found.atoms_a.upper), exact(found.atoms_b.upper), strict=True
    ):
        least = mass * (1 + 2 * Fraction(shift))
        assert b >= least
        assert a >= least * total / 3


def test_events_without_a_reliable_loss_are_only_one_distributions() -> None:
    faint = level(np.array([1e-290]), exponent=70)
    found = dominating_pair(Dominating((level(np.array([0.5])), faint), 0.0, 1, 0.0), 1.0).loss_masses(NO_EDGES)
    assert Fraction(float(found.only_a.upper[0])) >= Fraction(1e-290) * 2**70
    assert Fraction(float(found.only_b.upper[0])) >= Fraction(1e-290)


def test_a_dominated_pair_encloses_the_masses() -> None:
    # Events are sorted by their ratios.
    masses = np.sort(np.random.default_rng(1).random(40)) + 0.1
    own, other = level(masses, error=1e-3), level(np.full(40, 0.3), error=1e-3)
    found = dominated_pair(Dominated((own,), (other,), 1)).loss_masses(NO_EDGES)
    for told, known in ((own, found.atoms_a), (other, found.atoms_b)):
        for mass, error, low, up in zip(
            *map(exact, (told.masses, errors(told), known.lower, known.upper)), strict=True
        ):
            assert low <= mass - error
            assert mass + error <= up


def test_sums_of_levels_are_within_their_errors() -> None:
    random = np.random.default_rng(2)
    x, y = random.random((2, 30))
    (found,) = product((level(x),), (level(y),), split_to_both, 0.0)
    first, second = exact(x), exact(y)
    assert_within(found, [sum(first[i] * second[k - i] for i in range(30) if 0 <= k - i < 30) for k in range(59)])
    (both,) = gathered((level(x), level(y)))
    assert_within(both, [one + other for one, other in zip(first, second, strict=True)])
    assert_within(scaled(level(x), 0.3), [Fraction(0.3) * each for each in first])


def test_errors_of_either_factor_count() -> None:
    x, y = np.random.default_rng(4).random((2, 30))
    for error_x, error_y in ((0.0, 1e-3), (1e-3, 0.0), (1e-3, 2e-3)):
        most = np.convolve(x * (1.0 + error_x), y * (1.0 + error_y))
        (found,) = product((level(x, error=error_x),), (level(y, error=error_y),), split_to_both, 0.0)
        assert np.all(most <= (found.masses + errors(found)) * (1.0 + 1e-12))


def test_split_masses_are_within_their_errors() -> None:
    masses = np.random.default_rng(3).random(8) * 10.0 ** -np.arange(8.0)
    found = split_to_both(level(masses, first=0), 2)
    truth = [Fraction(0)] * found.size
    for place, mass in enumerate(exact(masses)):
        low, part = divmod(place, 4)
        truth[low - found.first] += mass * (4 - part) / 4
        if part:
            truth[low + 1 - found.first] += mass * part / 4
    assert_within(found, truth)
