"""Private sums over a stream: tree aggregation and banded matrix factorisation, as Gaussian mechanisms.

The sums of all steps are A X, X the contributions of the steps. They are released as B (C X + Z), A = B C, Z Gaussian:
so privacy is that of C X + Z, a Gaussian mechanism whose sensitivity is the largest length of what one individual adds
to C X (Denisov, McMahan, Rush, Smith & Thakurta 2022). The functions here bound it, rounded up: Theorem 43 of
docs/theory.md.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.declaration import checked_integer, checked_size
from pbdist.mechanisms.masses import UNIT_ROUNDOFF
from pbdist.mechanisms.subsampled import SubsampledGaussian
from pbdist.types import FloatArray

#: More steps, or more participations, than any training has.
_MAX_STEPS = 2**40
#: Entries of a matrix that is looked through.
_MAX_ENTRIES = 10**8


def tree_aggregation(leaves: int, noise_multiplier: float, *, participations: int = 1, separation: int = 1) -> Gaussian:
    """Return the pair of all sums of a binary tree with Gaussian noise on each node.

    The nodes are the complete dyadic intervals among the steps 1 .. leaves; every prefix sum is a sum of at most one
    noisy node of each size (Honaker 2015; Kairouz, McMahan, Song, Thakkar, Thakurta & Xu 2021). What is computed from
    the nodes afterwards, such as Honaker's estimates, changes nothing.

    Parameters
    ----------
    leaves : int
        How many steps there are, at least 1.
    noise_multiplier : float
        Standard deviation of the noise on each node, and in each coordinate, over the clipping norm of a contribution.
    participations : int, optional
        In how many steps an individual takes part, at most.
    separation : int, optional
        How far apart any two of these steps are, at least: 1 where they may be next to each other.

    Returns
    -------
    Gaussian
        ``scale`` is the noise multiplier; ``sensitivity`` a bound on the length of what one individual adds to all
        nodes, rounded up. It is exact for one participation, and where leaves and separation are powers of 2.
        Neighbours differ in whether an individual's contributions are there or zero; one that is replaced moves twice
        as far.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    Examples
    --------
    >>> from pbdist.mechanisms.matrix_factorization import tree_aggregation
    >>> round(tree_aggregation(1023, 4.0).sensitivity ** 2, 9)  # ten sizes of nodes: 1, 2, .., 512
    10.0
    """
    name = "tree_aggregation"
    steps = checked_integer(name, "leaves", leaves, minimum=1, maximum=_MAX_STEPS)
    scale = checked_size(name, "noise_multiplier", noise_multiplier)
    most, apart = _participation(name, participations, separation)
    square = 0
    for size in (2**height for height in range(steps.bit_length())):
        nodes = steps // size
        total = min(most, _most_steps(nodes * size, apart))
        square += _most_squares(total, _most_steps(size, apart), nodes)
    return Gaussian(scale, _root_above(Fraction(square)))


def banded(matrix: Any, noise_multiplier: float, *, participations: int = 1, separation: int | None = None) -> Gaussian:
    """Return the pair of C X + Z for a banded strategy matrix C.

    Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta & Xu 2023, "(Amplified) Banded Matrix Factorization". Where
    C is lower triangular, a contribution may depend on what the rows before its step have shown; else contributions are
    fixed beforehand.

    Parameters
    ----------
    matrix : array_like of float, shape (rows, steps)
        C: column i is what the contribution of step i is added to. Columns that are at least `separation` apart must
        have no row in common, as where C has at most so many bands.
    noise_multiplier : float
        Standard deviation of the entries of Z, over the clipping norm of a contribution.
    participations : int, optional
        In how many steps an individual takes part, at most.
    separation : int, optional
        How far apart any two of these steps are, at least. Needed for more participations than one.

    Returns
    -------
    Gaussian
        ``scale`` is the noise multiplier; ``sensitivity`` the largest length of what one individual adds to C X,
        rounded up: for one participation the largest column norm, else the root of the largest sum of squares of so
        many column norms that far apart. Neighbours as of `tree_aggregation`.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range, or two columns that far apart share a row: for such no exact sensitivity is
        known here.
    """
    name = "banded"
    columns = _checked_matrix(name, matrix)
    scale = checked_size(name, "noise_multiplier", noise_multiplier)
    most, apart = _participation(name, participations, 1 if separation is None else separation)
    squares = _squared_norms(columns)
    if most == 1:
        return Gaussian(scale, _root_above(Fraction(max(squares))))
    if separation is None:
        raise InvalidInputError(f"{name}.separation: expected a number with {most} participations, got None")
    _refuse_shared_rows(name, columns, apart)
    return Gaussian(scale, _root_above(_largest_sum(squares, most, apart)))


def sampled_banded(matrix: Any, noise_multiplier: float, *, rate: float, bands: int) -> tuple[SubsampledGaussian, int]:
    """Return pair and rounds of C X + Z for a banded C where the individuals of each step are sampled.

    The individuals are divided beforehand into as many parts as there are bands, by what does not depend on the others.
    Step i takes part i mod bands, and each individual of it with probability `rate`, independently (Choquette-Choo et
    al. 2023, Algorithm 2 and Theorem 4).

    Parameters
    ----------
    matrix : array_like of float, shape (steps, steps)
        C, lower triangular, with at most `bands` diagonals that are not 0: the main one and those below it.
    noise_multiplier : float
        Standard deviation of the entries of Z, over the clipping norm of a contribution.
    rate : float
        Probability with which an individual of the part whose turn it is takes part, in (0, 1].
    bands : int
        How many parts there are.

    Returns
    -------
    (SubsampledGaussian, int)
        The pair of the largest column norm, for one individual added or removed, and how many rounds of it dominate the
        whole: steps / bands, rounded up.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range, or C has other entries than on these diagonals.
    """
    name = "sampled_banded"
    columns = _checked_matrix(name, matrix)
    scale = checked_size(name, "noise_multiplier", noise_multiplier)
    apart = checked_integer(name, "bands", bands, minimum=1, maximum=_MAX_STEPS)
    rows, steps = columns.shape
    if rows != steps:
        raise InvalidInputError(f"{name}.matrix: expected as many rows as columns, got {rows} and {steps}")
    outside = np.argwhere(np.triu(columns, 1) + np.tril(columns, -apart) != 0.0)
    if outside.size:
        raise InvalidInputError(
            f"{name}.matrix: expected no entry but on the main diagonal and the {apart - 1} below it, got one in row"
            f" {int(outside[0, 0])} and column {int(outside[0, 1])}"
        )
    norm = _root_above(Fraction(max(_squared_norms(columns))))
    return SubsampledGaussian(scale, rate, norm), -(-steps // apart)


def _participation(name: str, participations: Any, separation: Any) -> tuple[int, int]:
    most = checked_integer(name, "participations", participations, minimum=1, maximum=_MAX_STEPS)
    return most, checked_integer(name, "separation", separation, minimum=1, maximum=_MAX_STEPS)


def _most_steps(length: int, apart: int) -> int:
    """Return how many of so many consecutive steps an individual can take part in."""
    return -(-length // apart)


def _most_squares(total: int, largest: int, nodes: int) -> int:
    """Return the largest sum of squares of so many whole numbers up to `largest`, of a sum of at most `total`.

    Squares are convex: as many as possible are as large as possible.
    """
    total = min(total, largest * nodes)
    full, rest = divmod(total, largest)
    return full * largest * largest + rest * rest


def _checked_matrix(name: str, matrix: Any) -> FloatArray:
    try:
        found = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}.matrix: expected a matrix of numbers, got {shown(matrix)}") from None
    if found.ndim != 2 or not 1 <= found.size <= _MAX_ENTRIES:
        raise InvalidInputError(
            f"{name}.matrix: expected a matrix of 1 to {_MAX_ENTRIES:,} numbers, got the shape {found.shape}"
        )
    size = float(np.abs(found).max())
    if not math.isfinite(size) or not 1e-100 <= size <= 1e100:
        raise InvalidInputError(f"{name}.matrix: expected entries of at most 1e100 that are not all 0, got {size!r}")
    return found


def _squared_norms(columns: FloatArray) -> list[float]:
    """Return upper values of the squared column norms.

    A square is off by u, or, where it underflows, by less than the smallest float; the sum of n is off by n u.
    """
    rows = columns.shape[0]
    slack = 1.0 + (rows + 8.0) * UNIT_ROUNDOFF
    squares = np.sum(columns * columns, axis=0) * slack + rows * np.finfo(np.float64).tiny
    return [float(value) for value in squares]


def _largest_sum(squares: Sequence[float], most: int, apart: int) -> Fraction:
    """Return an upper value of the largest sum of at most so many of the squares at positions that far apart.

    A sum of k summands of one sign is off by less than k u.
    """
    count = min(most, _most_steps(len(squares), apart))
    # Steps further apart than all there are leave one alone, as those do that are just as far apart.
    apart = min(apart, len(squares))
    values = np.array(squares)
    # The best of so many squares among the positions from each one on.
    best = np.zeros(len(squares) + apart)
    for _ in range(count):
        taken = values + best[apart : apart + len(squares)]
        best = np.concatenate((np.maximum.accumulate(taken[::-1])[::-1], np.zeros(apart)))
    return Fraction(float(best[0])) * (1 + Fraction(count + 1, 2**53))


def _refuse_shared_rows(name: str, columns: FloatArray, apart: int) -> None:
    """Refuse columns that are `apart` or more steps from each other and have a row in common."""
    there = columns != 0.0
    steps = columns.shape[1]
    first = np.where(there.any(axis=1), there.argmax(axis=1), 0)
    last = np.where(there.any(axis=1), steps - 1 - there[:, ::-1].argmax(axis=1), 0)
    wide = np.flatnonzero(last - first >= apart)
    if wide.size:
        row = int(wide[0])
        raise InvalidInputError(
            f"{name}.matrix: expected columns that share no row where they are {apart} or more apart, got columns"
            f" {int(first[row])} and {int(last[row])} in row {row}"
        )


def _root_above(square: Fraction) -> float:
    """Return the least float64 that is not below the root of a number, or the one above it."""
    root = math.sqrt(float(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
