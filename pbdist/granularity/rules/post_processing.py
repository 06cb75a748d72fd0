"""What post-processing keeps, and what a composition says of its parts (Guerra-Balboa et al. 2024, VII)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.statements import OnItsOwnDomain, OnTheCommonDomain, Statement
from pbdist.granularity.upward import Amount, checked_amount, checked_amounts

_Kept = TypeVar("_Kept", bound=Statement | OnItsOwnDomain | OnTheCommonDomain)


@dataclass(frozen=True, eq=False)
class Conclusion:
    """What follows for the parts of a composition, and what does not.

    Attributes
    ----------
    privacy : Statement
        What each part has.
    holds_for : str
        What a part is.
    does_not_follow : str
        What might be taken for it.
    """

    privacy: Statement
    holds_for: str
    does_not_follow: str


def after_post_processing(known: _Kept) -> _Kept:
    """Return what is known of h ∘ M, for any h that does not look at the database: what is known of M (Theorem VII.1).

    h may be randomized. M may still depend on f(D) alone. Private* stays private*.
    """
    if not isinstance(known, OnItsOwnDomain | OnTheCommonDomain):
        _check("Theorem VII.1", known)
    return known


def parts_of_independent(privacy: Statement) -> Conclusion:
    """Return what each part of an independent composition has: what the composition has (Theorem VII.2).

    A part M_i is post-processing of the composition: its i-th output. So a composition of which one part is not private
    is not private either, whatever the other parts are (`refuting_parts`).
    """
    _check("Theorem VII.2", privacy)
    return Conclusion(
        privacy,
        "each M_i, as a mechanism on the class of databases of the composition",
        "anything about M_i* on what it reads: f_i may have taken away what M_i* reveals (Remark III.7)",
    )


def parts_of_adaptive(privacy: Statement) -> Conclusion:
    """Return what each output of an adaptive composition has: what the composition has (Theorem VII.3).

    That is the i-th output alone, drawn with the earlier ones and these forgotten. It is no full reciprocal.
    """
    _check("Theorem VII.3", privacy)
    return Conclusion(
        privacy,
        "each N_i, the i-th output with the earlier ones averaged out",
        "anything about M_i(s, .) for fixed earlier outputs s, which may be rare or impossible, or about M_i*",
    )


def refuting_parts(claimed: Amount, at_least: Sequence[Amount]) -> tuple[int, ...]:
    """Return the parts that refute a claim about their composition (Theorems VII.2 and VII.3).

    Parameters
    ----------
    claimed : int, Fraction or float
        A parameter that is claimed of the composition: ε, δ at a given ε, ρ or μ.
    at_least : sequence of int, Fraction or float
        Lower bounds on the same parameter of its parts: M_i if they are independent, else the i-th output with the
        earlier ones averaged out.

    Returns
    -------
    tuple of int
        The numbers of the parts with more than is claimed. Without any, the claim may still be false.
    """
    limit = checked_amount(claimed, "claimed")
    return tuple(i for i, known in enumerate(checked_amounts(at_least, "at_least")) if known > limit)


def _check(rule: str, privacy: Any) -> None:
    if not isinstance(privacy, Statement):
        raise InvalidInputError(
            f"{rule}: expected PurePrivacy, ApproximatePrivacy, ZeroConcentratedPrivacy or GaussianPrivacy, got"
            f" {shown(privacy)}"
        )
