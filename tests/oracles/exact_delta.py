"""The bounds on δ that an exact bucket list gives, in rational arithmetic.

With y = e^ε and j the index with f^(j-1) < y <= f^j. Upper bounds: Definition 5, Definition 9 and the chord;
lower bounds: δ_low of Definition 9 and post-processing. Each holds for the direction of the state alone; the
δ of the mechanism is the LARGER of the two directions, so the larger of their lower bounds is one too
(Theorem 2 of the paper takes the smaller, which is a weaker bound).

Why each upper bound is one, event by event, from (*) of :mod:`tests.oracles.exact`. Write t = b*/P_A for the
share that (*) vouches for, so that f^-i <= t <= f^-(i-u) and t <= P_B/P_A, and g(t) = max(0, 1 - y t), which
falls and is convex. The event's part of δ is P_A g(P_B/P_A) <= P_A g(t), and an event in ∞ adds no more than
P_A.

- Definition 5: g(t) <= g(f^-i).
- Definition 9: for i >= j + u, t <= f^-j <= 1/y, so g(t) = 1 - y t and the bucket's sum is a(i) - y b_real(i)
  exactly.
- Chord: only the mean b_real(i)/a(i) of t is known. A convex g lies below the chord through the ends of
  [f^-i, f^-(i-u)], and the mean of a chord is the chord at the mean. For i >= j + u, g is straight there and
  the chord IS Definition 9; in the window it is at most g(f^-i), which is Definition 9 there.

Source: Meiser and Mohammadi (CCS 2018), Definitions 5 and 9, Lemmas 10 to 13; the chord and the
post-processing bound follow from the same state.
"""

from fractions import Fraction

from tests.oracles.exact import ExactState
from tests.oracles.exact_truth import Rational, checked_rational

__all__ = [
    "edge_index",
    "lower_definition_9",
    "lower_post_processing",
    "upper_chord",
    "upper_definition_5",
    "upper_definition_9",
]


def edge_index(state: ExactState, exp_epsilon: Rational) -> int:
    """Return j with f^(j-1) < y <= f^j, or n + 1 where y is beyond the grid.

    Parameters
    ----------
    state : ExactState
        Whose grid is meant.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    int
        0 .. n + 1.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    index = 0
    edge = Fraction(1)
    while index <= state.half_width and y > edge:
        index += 1
        edge *= state.factor
    return index


def upper_definition_5(state: ExactState, exp_epsilon: Rational) -> Fraction:
    """Return δ by Definition 5: a(∞) + Σ a(i) max(0, 1 - y f^-i), every event at its bucket's upper edge.

    Parameters
    ----------
    state : ExactState
        Of one direction.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    Fraction
        An upper bound on the direction's δ(ε).

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    delta = state.infinity_a
    for index, a in zip(state.indices, state.mass_a, strict=True):
        delta += a * max(Fraction(0), 1 - y / state.factor**index)
    return delta


def upper_definition_9(state: ExactState, exp_epsilon: Rational) -> Fraction:
    """Return δ by Definition 9: as Definition 5 in the window j .. j + u - 1, above it with the known P_B.

    Parameters
    ----------
    state : ExactState
        Of one direction.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    Fraction
        An upper bound on the direction's δ(ε), at most that of Definition 5 since b_real(i) >= a(i) f^-i.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    start = edge_index(state, y)
    delta = state.infinity_a
    for index, a, b_real in zip(state.indices, state.mass_a, state.mass_b_real, strict=True):
        if index >= start + state.misplacement:
            delta += a - y * b_real
        elif index >= start:
            delta += a - y * a / state.factor**index
    return delta


def upper_chord(state: ExactState, exp_epsilon: Rational) -> Fraction:
    """Return δ by the chord: the worst spread of a bucket's events that its two masses allow.

    Parameters
    ----------
    state : ExactState
        Of one direction.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    Fraction
        An upper bound on the direction's δ(ε), at most that of Definition 9.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    delta = state.infinity_a
    for index, a, b_real in zip(state.indices, state.mass_a, state.mass_b_real, strict=True):
        if a:
            low = 1 / state.factor**index
            high = low * state.factor**state.misplacement
            part = (b_real / a - low) / (high - low)
            delta += a * ((1 - part) * max(Fraction(0), 1 - y * low) + part * max(Fraction(0), 1 - y * high))
    return delta


def lower_definition_9(state: ExactState, exp_epsilon: Rational) -> Fraction:
    """Return δ_low of Definition 9: the sum of max(0, a(i) - y b(i)) over the finite buckets i >= j.

    Parameters
    ----------
    state : ExactState
        Of one direction.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    Fraction
        A lower bound on the direction's δ(ε): a partial sum of :func:`lower_post_processing`.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    start = edge_index(state, y)
    return sum(
        (
            max(Fraction(0), a - y * b)
            for index, a, b in zip(state.indices, state.mass_a, state.mass_b, strict=True)
            if index >= start
        ),
        Fraction(0),
    )


def lower_post_processing(state: ExactState, exp_epsilon: Rational) -> Fraction:
    """Return Σ max(0, a(i) - y b(i)) over ALL buckets, ∞ included.

    Mapping an event to its bucket is post-processing, and max(0, Σ (P_A - y P_B)) <= Σ max(0, P_A - y P_B).

    Parameters
    ----------
    state : ExactState
        Of one direction.
    exp_epsilon : Fraction or int
        y = e^ε >= 1.

    Returns
    -------
    Fraction
        A lower bound on the direction's δ(ε), at least that of Definition 9.

    Raises
    ------
    InvalidInputError
        If y is not a rational number >= 1.
    """
    y = checked_rational("exp_epsilon", exp_epsilon, 1)
    delta = max(Fraction(0), state.infinity_a - y * state.infinity_b)
    for a, b in zip(state.mass_a, state.mass_b, strict=True):
        delta += max(Fraction(0), a - y * b)
    return delta
