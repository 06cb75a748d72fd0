"""Read dp-accounting's events: compositions become worst-case pairs with counts, what is not exact is refused."""

from collections.abc import Iterable, Iterator
from typing import Any

from pbdist.accounting.event_pairs import EventPairs, composed, refusal
from pbdist.accounting.event_reading import Reading
from pbdist.accounting.event_rules import REFUSED, RULES
from pbdist.arguments import MAX_COMPOSITIONS
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Adjacency

_MODULE = "dp_accounting.dp_event"
_COMPOSED, _REPEATED = "ComposedDpEvent", "SelfComposedDpEvent"
#: The neighbours that events can be read for.
_ADJACENCIES = (Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
#: So many events are nested in one another at most, apart from compositions.
_DEEPEST = 20

#: Every kind of event that is known, by the name of its class.
KINDS = frozenset({*RULES, *REFUSED, _COMPOSED, _REPEATED})


def from_dp_event(event: Any, *, adjacency: Adjacency | str = Adjacency.ADD_OR_REMOVE) -> EventPairs:
    """Return the worst-case pairs of an event of dp-accounting, and how often each occurs.

    They are the exact worst case, or, for batches of a fixed size, samples that are cut, and parameters that no float64
    is, two compositions that are proved to enclose it. All other kinds are refused by name; none is approximated. So is
    a class that dp-accounting does not define, a subclass of its classes too.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The event, or the named tuple that its ``to_named_tuple`` returns. dp-accounting need not be installed for that.
    adjacency : Adjacency or str, optional
        For which neighbours: "add-or-remove", "replace-one" or "zero-out", which dp-accounting calls
        ``ADD_OR_REMOVE_ONE``, ``REPLACE_ONE`` and ``REPLACE_SPECIAL``.

    Returns
    -------
    EventPairs
        Pairs and counts, which ``pbdist.epsilon_bounds`` takes as they are, with ``compositions=1``; and bounds on ε
        and on δ.

    Raises
    ------
    EventRefusedError
        No pair is known for an event or for those neighbours, or a parameter is out of its range; the text says which.
    InvalidInputError
        The adjacency is none of these.

    Notes
    -----
    Theorem 1 of docs/theory.md: the pairs of events that are composed, in any order and adaptively, are composed.
    Theorems 36 to 40 and 81 to 83 are about the single events.

    Examples
    --------
    >>> import dp_accounting
    >>> from pbdist.accounting import from_dp_event
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> run = from_dp_event(dp_accounting.SelfComposedDpEvent(step, 1000))
    >>> list(run)
    [(SubsampledGaussian(scale=1.0, rate=0.01, sensitivity=1.0), 1000)]
    >>> print(f"{run.epsilon(1e-5).upper:.3f}")
    1.828
    """
    if adjacency not in _ADJACENCIES:
        raise InvalidInputError(f"adjacency: expected one of {', '.join(_ADJACENCIES)}, got {shown(adjacency)}")
    return _read(event, Adjacency(adjacency), 0)


def _read(event: Any, adjacency: Adjacency, depth: int) -> EventPairs:
    """Return the pairs of an event that is so deep in others."""
    if depth > _DEEPEST:
        raise refusal(_name_of(event), f"one in more than {_DEEPEST} others", event)
    parts = [_leaf(leaf, adjacency, depth).times(count) for leaf, count in _leaves(event)]
    return composed(parts, adjacency)


def _leaf(event: Any, adjacency: Adjacency, depth: int) -> EventPairs:
    """Return the pairs of an event that is no composition."""
    name = _name_of(event)
    if name in RULES:
        return RULES[name](Reading(name, event, adjacency, lambda inner: _read(inner, adjacency, depth + 1)))
    raise refusal(name, REFUSED.get(name, f"{shown(event)}, which is none of {_MODULE}"), event)


def _leaves(event: Any) -> Iterator[tuple[Any, int]]:
    """Yield the events that are composed, in order, and how often each occurs; none that occurs 0 times is left out.

    Compositions may be nested as deeply as memory allows.
    """
    waiting = [(event, 1)]
    while waiting:
        current, count = waiting.pop()
        name = _name_of(current)
        if name == _REPEATED:
            repeats = current.count
            whole = type(repeats) is int or (hasattr(repeats, "__index__") and not isinstance(repeats, bool))
            if not whole or int(repeats) < 0 or count * int(repeats) > MAX_COMPOSITIONS:
                raise refusal(
                    name, f"count {shown(repeats)}: expected a whole number from 0, 2^62 runs in all", current
                )
            waiting.append((current.event, count * int(repeats)))
        elif name == _COMPOSED:
            inner = current.events
            if isinstance(inner, str | bytes) or not isinstance(inner, Iterable):
                raise refusal(name, f"events {shown(inner)}, which are no sequence", current)
            waiting += [(one, count) for one in reversed(list(inner))]
        else:
            yield current, count


def _name_of(event: Any) -> str:
    """Return the name of an event's class, by which it is known; what is no event of dp-accounting has another one."""
    if isinstance(event, tuple) and hasattr(event, "module_name") and hasattr(event, "class_name"):
        module, name = _text(event.module_name), _text(event.class_name)
    else:
        module, name = type(event).__module__, type(event).__qualname__
    return name if module == _MODULE else f"{module}.{name}"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
