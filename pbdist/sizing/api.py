"""`size`: the smallest noise of a family that meets a target, from computed bounds or from a store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pbdist.arguments import check_flag, checked_number
from pbdist.errors import InvalidInputError, OffGridError, PrecisionError, StoreMismatchError
from pbdist.mechanisms import (
    KaryRandomizedResponse,
    NoisyCount,
    Pair,
    RandomizedResponse,
    checked_adjacency,
    common_adjacency,
    noise_parameter,
    stated,
)
from pbdist.query.study import Study, open_study
from pbdist.results import NOTHING_KNOWN, Bracket, warn_or_raise
from pbdist.rounding import brief, exact
from pbdist.sizing.counts import smallest_count
from pbdist.sizing.families import CountFamily, ScaleFamily, family_of, made
from pbdist.sizing.scale import smallest_scale
from pbdist.sizing.sized import SizedNoise
from pbdist.sizing.target import Certificate, Computed, Judge, Source, checked_target
from pbdist.store import Place
from pbdist.study import Target
from pbdist.types import Adjacency

#: About how many bounds a search takes: where smaller noise is scanned, where an order is proved, and for counts.
_BOUNDS, _BOUNDS_COUNTED = (40, 5), 100


class _StoredSource:
    """Bounds from a study at a target's r and ε, computed where they are too wide; `evaluations` counts computations.

    First the study answers, by equality and proved orders alone (`Study.delta`). Where that is too wide, the point is
    computed as the study does and added to the store, unless the store takes nothing. Where that is too wide still,
    narrower bounds are computed and not stored.
    """

    def __init__(self, study: Study, target: Target, source: Source) -> None:
        self.evaluations = 0
        self._study, self._target, self._source = study, target, source

    def __call__(self, pair: Pair, tolerance: float) -> Bracket:
        """Bound δ of a pair with about that relative width, or wider where that decides."""
        try:
            found = self._answer(pair, refine=False)
        except OffGridError:
            found = NOTHING_KNOWN
        if self._enough(found, tolerance):
            return found
        try:
            refined = self._answer(pair, refine=True)
            self.evaluations += 1
            found = found.narrowed(refined)
        except (OffGridError, StoreMismatchError, InvalidInputError, PrecisionError, PermissionError):
            # Nothing can be added to the store: it has an old format, a run holds it, or it is read only.
            pass
        if self._enough(found, tolerance):
            return found
        self.evaluations += 1
        return found.narrowed(self._source(pair, tolerance))

    def _answer(self, pair: Pair, *, refine: bool) -> Bracket:
        # Without the warning of wide answers: `size` warns where they decide.
        r, epsilon = self._target.compositions, self._target.epsilon
        answer = self._study.delta(pair, compositions=r, epsilon=epsilon, refine=refine, strict="silent")
        # Where no lower bound is known, 0 is one.
        return NOTHING_KNOWN.narrowed(answer.bracket())

    def _enough(self, found: Bracket, tolerance: float) -> bool:
        decided = found.upper <= self._target.delta or found.lower > self._target.delta
        return decided or found.log_upper - found.log_lower <= tolerance


def _stored_amounts(study: Study | None, family: ScaleFamily | CountFamily) -> tuple[list[Any], Adjacency]:
    """Return the scales of a family, or its means and scales, whose mechanisms the study has; and for which neighbours.

    They are in order.
    """
    found: set[Any] = set()
    neighbours = set()
    for cell in () if study is None else study.spec.cells:
        for mean, scale in _means_and_scales(cell.pair):
            if made(family.pair, mean, scale) == cell.pair:
                found.add((mean, scale) if isinstance(family, CountFamily) else scale)
                neighbours.add(study.spec.neighbours_of(cell))  # type: ignore[union-attr]
                break
    return sorted(found), common_adjacency(neighbours)


def _means_and_scales(pair: Pair) -> Iterator[tuple[float, float]]:
    """Yield the numbers that may be mean and scale of a pair; where it has no mean, 0."""
    for factor in pair.factors:
        one = factor.inner
        sized = noise_parameter(type(one))
        if isinstance(one, RandomizedResponse | KaryRandomizedResponse):
            yield 0.0, 1.0 - one.p
        elif isinstance(one, NoisyCount):
            yield one.mean, one.noise.scale
        elif sized is not None:
            yield 0.0, getattr(one, sized.name)


def checked_part(tolerance: Any) -> float:
    """Return the part by which refuted noise is smaller, checked."""
    return checked_number("tolerance", tolerance, "a number from 1e-6 to 0.5", lambda value: 1e-6 <= value <= 0.5)


def size(
    family: type[Pair] | CountFamily | Callable[[float], Pair],
    *,
    compositions: int,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float,
    tolerance: float = 0.01,
    store: Study | str | Path | Place | None = None,
    strict: bool = False,
    adjacency: str | None = None,
    **parameters: Any,
) -> SizedNoise:
    """Return the smallest noise of a family that provably meets δ(ε) <= delta after r compositions.

    Parameters
    ----------
    family : mechanism class, CountFamily or callable
        - A class such as `pbdist.Gaussian`: its scale is sized (`Poisson`: the mean; `RandomizedResponse`: the
          probability of a lie, 1 - p, at most 1/2; `KaryRandomizedResponse` of a ``k``: at most 1 - 1/k), the other
          ``parameters`` are passed on.
        - `pbdist.NoisyCount` with ``noise=pbdist.Laplace`` (or `Gaussian`, `DiscreteLaplace`, `DiscreteGaussian`),
          ``shift`` and ``reading``: mean and scale are sized together, so that the noise takes the fewest messages on
          average; with ``mean`` given, the scale. With ``noise=pbdist.Poisson`` its mean is sized.
        - A `CountFamily`: the same for several counts that are seen together.
        - A callable from a scale to a mechanism.
    compositions : int
        r, at least 1.
    epsilon, exp_epsilon : float
        One of ε >= 0, nats, and e^ε; of the latter, ε is the natural logarithm, rounded to the nearest float.
    delta : float
        Above 0 and below 1.
    tolerance : float, optional
        From 1e-6 to 1/2: how much smaller the noise is that is refuted, relatively.
    store : Study, str or Path, optional
        The store of a study, which answers first. Other bounds than those that follow by equality and proved orders are
        computed and added to it.
    strict : bool, optional
        Whether it is an error if the noise that is refuted is smaller by more than the tolerance.
    adjacency : {"add-or-remove", "add-or-remove-group", "replace-one", "zero-out"}, optional
        For which neighbours the parameters, such as the sensitivity, are stated, as of `pbdist.privacy_bounds`. A store
        whose study states other ones for the same mechanisms is refused; by default those of the study apply.
    **parameters
        Other parameters of the mechanism class.

    Returns
    -------
    SizedNoise
        The answer with its certificate, which prints as `pbdist size` prints it. For families without a proved order
        (truncated or clipped noise, the discrete Gaussian, callables) also the smaller noises that were scanned, down
        to a hundredth in steps of at most a factor of 1.15, every one of which is refuted; one that meets the target
        would have become the answer.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; if no noise of the search meets the target, as where the mass at infinity
        alone exceeds δ; or if all of it does, so that none can be refuted.
    PrecisionError
        If the bounds do not decide the target where that matters, so that no noise is refuted; or if `strict`, and
        the refuted noise is smaller by more than the tolerance.

    Warns
    -----
    PrecisionWarning
        If the refuted noise is smaller by more than the tolerance, as bounds on δ decide no closer; both
        certificates hold.

    Notes
    -----
    For clipped counts the certificate is: (mean, scale) · (1 - tolerance) is refuted, and so is, at each of seventeen
    scales from 0.28 to 3.6 times the answer's, the mean with which the noise takes (1 - tolerance) of the answer's
    messages, for means of at least 0. The means of discrete noise are whole: these are rounded down. Nothing is claimed
    of the pairs between them.

    Examples
    --------
    >>> import pbdist
    >>> sized = pbdist.size(pbdist.Gaussian, compositions=1024, exp_epsilon=2.0, delta=1e-4)
    >>> sized.delta_upper <= 1e-4 < sized.refuted_delta_lower
    True
    """
    check_flag("strict", strict)
    given = checked_adjacency(adjacency)
    target = checked_target(compositions, epsilon, exp_epsilon, delta)
    part = checked_part(tolerance)
    study = store if store is None or isinstance(store, Study) else open_study(store)
    source = Computed(target) if study is None else _StoredSource(study, target, Computed(target))
    sized_family = family_of(family, parameters)
    judge = Judge(target, source, _BOUNDS_COUNTED if sized_family.joint else _BOUNDS[sized_family.ordered])
    if given.definite:
        _checked_neighbours(made(sized_family.pair, 1.0, 1.0 if sized_family.joint else 0.5), given)
    known, stored = _stored_amounts(study, sized_family)
    if given.definite and stored.definite and given is not stored:
        raise InvalidInputError(
            f"adjacency: expected {stored}, as the study in the store states for these mechanisms, got {given}"
        )
    search: Callable[..., Certificate] = smallest_count if sized_family.joint else smallest_scale
    answer = search(sized_family, judge, part, known)
    sized = SizedNoise(
        **vars(answer),
        **vars(target),
        tolerance=part,
        ordered=sized_family.ordered,
        expected_messages=sized_family.messages(answer.mean or 0.0, answer.scale),
        evaluations=source.evaluations,
        adjacency=_checked_neighbours(answer.mechanism, given if given.definite else stored),
        mean_step=sized_family.mean_step,
        family=(family, parameters),
    )
    if not sized.within_tolerance:
        less = 1.0 - sized.refuted_scale / sized.scale
        missed = (
            f"tolerance: the refuted noise is smaller by {less:.3g}, not by {brief(part)}: δ <= {exact(sized.delta)} is"
            f" met with scale {sized.scale!r} and missed with {sized.refuted_scale!r}; bounds on δ do not decide the"
            " scales between"
        )
        warn_or_raise(missed, strict=strict)
    return sized


def _checked_neighbours(mechanism: Pair | None, given: Adjacency) -> Adjacency:
    """Return the neighbours of a mechanism of the family; other ones than it states itself are refused."""
    return given if mechanism is None else stated(mechanism.adjacency, given, "adjacency", type(mechanism).__name__)
