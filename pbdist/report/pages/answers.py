"""What a store proves of tabulated noise at a target, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import MECHANISMS, Pair, at_least_as_noisy, noise_order, noise_parameter
from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.mechanisms.counts import SHIFT_INSIDE
from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise
from pbdist.query.settings import neighbours_words
from pbdist.query.study import Study
from pbdist.report.pages.document import Block, Bullets, Paragraph
from pbdist.report.pages.words import parameters, target_in_words
from pbdist.results import Verdict
from pbdist.rounding import rounded_down, rounded_up
from pbdist.sizing.families import expected_messages
from pbdist.study import Target
from pbdist.types import Adjacency

#: Mechanisms that the answer names, and that have a sentence each.
_MAX_NAMED, _MAX_SENTENCES = 4, 8


def noise_in_words(name: str, pair: Pair, readings: Sequence[str] = ()) -> str:
    """Return a mechanism as the subject of a sentence: ``Gaussian noise of scale 200``; of a count, all `readings`."""
    form = pair.canonical()
    # A sensitivity of 1 is what everybody expects; the appendix names it.
    hidden = [*(["reading"] if readings else []), *(["sensitivity"] if form.get("sensitivity") == 1.0 else [])]
    words = parameters(form, hidden) + (f", reading {' or '.join(readings)}" if readings else "")
    if name != form["mechanism"]:
        return f"{name} ({words})"
    return f"{name}{' noise' if issubclass(MECHANISMS[name], AdditiveNoise) else ''} of {words}"


def messages_in_words(number: float) -> str:
    """Return how many messages noise takes."""
    return f"about {f'{number:,.0f}' if number >= 100.0 else f'{number:.3g}'} messages a round"


def shortened(pair: Pair, *, more: bool) -> Pair:
    """Return a pair with its amount of noise in 6 digits where that is provably more noise, or less; else the pair.

    So what is proved of the one pair is true of the other: that it meets a target, or that it is refuted.
    """
    sized = noise_parameter(type(pair))
    value = None if sized is None else getattr(pair, sized.name)
    if sized is None or not isinstance(value, float) or float(f"{value:.6g}") == value:
        return pair
    for shorten in (rounded_up, rounded_down):
        change: dict[str, Any] = {sized.name: float(shorten(value))}
        try:
            other: Pair = replace(pair, **change)  # type: ignore[type-var]
        except InvalidInputError:
            continue
        if at_least_as_noisy(other, pair) if more else at_least_as_noisy(pair, other):
            return other
    return pair


def answers(study: Study, target: Target, choices: Sequence[NoiseChoice]) -> Iterator[Block]:
    """Yield the answer to a target as a sentence; of several mechanisms also one for each."""
    groups = grouped_choices(study, choices)
    words = target_in_words(target)
    lead = _sentence(study, groups[0], words) if len(groups) == 1 else _answer(study, groups, words, len(choices))
    yield Paragraph(lead, lead=True)
    if len(groups) > 1:
        more = len(groups) - _MAX_SENTENCES
        rest = [f"And {more:,} more mechanisms: see the appendix."] if more > 0 else []
        yield Bullets((*(_sentence(study, group, "the target") for group in groups[:_MAX_SENTENCES]), *rest))


def order_sentence(study: Study, choices: Sequence[NoiseChoice]) -> str:
    """Return what follows of noise that is not tabulated."""
    found = [(one.label, noise_order(study.spec.cells[one.tried[0].cell].pair)) for one in choices if one.tried]
    order = {label: (label, None) not in found for label, _ in found}
    ordered = [label for label, known in order.items() if known]
    if not ordered:
        return "The verdicts are about the tabulated settings alone: more noise is not proved to be better."
    which = "More" if len(ordered) == len(order) else f"For {', '.join(ordered)}, more"
    return (
        f"{which} noise, with all else the same, provably hides at least as much, so that noise above one that meets"
        " the target meets it, and noise below one that is refuted is refuted."
    )


def neighbours_sentence(found: Mapping[str, Adjacency]) -> str:
    """Return for which neighbours the bounds of some labels are, as a sentence; nothing if no label states any."""
    if not any(one.definite for one in found.values()):
        return ""
    words = neighbours_words(found.items())
    return f"{words[0].upper()}{words[1:]}."


def grouped_choices(study: Study, choices: Sequence[NoiseChoice]) -> list[list[NoiseChoice]]:
    """Return choices grouped by what is said of them: readings of a count with one answer stand together.

    The reading that no system can do is left to the appendix. What meets the target under most readings comes first,
    and of that what takes the fewest messages.
    """
    shown = [choice for choice in choices if choice.fixed.get("reading") != SHIFT_INSIDE] or choices
    found: dict[tuple[object, ...], list[NoiseChoice]] = {}
    for choice in shown:
        noises = [
            None if one is None else parameters(study.spec.cells[one.cell].pair.canonical(), ("reading",))
            for one in (choice.smallest, choice.refuted)
        ]
        # Only choices that differ in their reading alone share a group.
        own = () if choice.fixed.get("reading") and any(noises) else (len(found),)
        found.setdefault((choice.label, *noises, _left_open(choice), *own), []).append(choice)
    # What holds under more readings is safer to say.
    return sorted(
        found.values(), key=lambda group: (group[0].smallest is None, -len(group), _messages(study, group) or 0.0)
    )


def _messages(study: Study, group: Sequence[NoiseChoice]) -> float | None:
    """Return about how many messages the noise of an answer takes a round; None where it is no noise of messages."""
    return expected_messages(study.spec.cells[(group[0].smallest or group[0].tried[0]).cell].pair)


def _answer(study: Study, groups: Sequence[Sequence[NoiseChoice]], target: str, every: int) -> str:
    """Return in sentences which noise of `every` so many choices meets a target; of noise messages the fewest."""
    counts = _counts([choice for group in groups for choice in group], every)
    met = [group for group in groups if group[0].smallest is not None]
    if not met:
        return f"No tabulated noise is proved to meet {target}. {counts}"
    messages = _messages(study, met[0])
    if messages is not None:
        under = f" for {' and '.join(_readings(met[0]))}" if _readings(met[0]) else ""
        fewest = f" No other answer{under} takes fewer." if len(met) > 1 else ""
        noise, takes = _noise(study, met[0], met[0][0].smallest), messages_in_words(messages)
        return f"{noise} meets {target}, with {takes}.{fewest} {counts}"
    noises = [_noise(study, group, group[0].smallest) for group in met[:_MAX_NAMED]]
    named = f"{', '.join(noises[:-1])} and {noises[-1]} meet" if len(noises) > 1 else f"{noises[0]} meets"
    return f"{named} {target}.{f' {counts}' if len(noises) < every else ''}"


def _counts(choices: Sequence[NoiseChoice], every: int) -> str:
    """Return how many groups meet the target, and of how many the most noise is refuted, undecided or missing."""
    found = [choice.tried[-1].verdict if choice.smallest is None else Verdict.MEETS for choice in choices]
    parts = []
    for verdict in Verdict:
        number = found.count(verdict)
        verb = f"{'is' if number == 1 else 'are'} {verdict.value}"
        if verdict is Verdict.MEETS:
            verb = "meets it" if number == 1 else "meet it"
        parts += [f"{number:,} {verb}"] if number else []
    others = f", other than those of {SHIFT_INSIDE}," if len(found) < every else ""
    return f"Of the {len(found):,} groups of settings in the appendix{others} {', '.join(parts)}."


def _readings(group: Sequence[NoiseChoice]) -> list[str]:
    return [str(choice.fixed["reading"]) for choice in group if choice.fixed.get("reading")]


def _noise(study: Study, group: Sequence[NoiseChoice], one: TabulatedNoise | None, *, more: bool = True) -> str:
    """Return a setting in words, with all readings of its group."""
    cell = study.spec.cells[(one or group[0].tried[0]).cell]
    return noise_in_words(cell.label, shortened(cell.pair, more=more), _readings(group))


def _sentence(study: Study, group: Sequence[NoiseChoice], target: str) -> str:
    """Return what is proved of a mechanism: the least noise that meets the target, and the most that is refuted."""
    choice = group[0]
    found, refuted = choice.smallest, choice.refuted
    left = _left_open(choice)
    if found is None and refuted is None:
        return f"{_noise(study, group, None)}{' and more of it' if len(choice.tried) > 1 else ''}: {left}."
    # Of several readings the bounds that hold for all.
    lower = rounded_down(min((each.refuted.lower for each in group if each.refuted), default=0.0))
    if found is None:
        most = "" if len(choice.tried) == 1 or left else ", the most that is tabulated,"
        rest = f"; of more noise, {left}" if left else ""
        return f"{_noise(study, group, refuted, more=False)}{most} is refuted: δ is at least {lower}{rest}."
    upper = rounded_up(max(each.smallest.upper for each in group if each.smallest))
    start = f"{_noise(study, group, found)} meets {target}: δ is at most {upper}"
    rest = f"; {left}" if left else ""
    if refuted is not None:
        return f"{start}; {_less(study, found, refuted)} is refuted: δ is at least {lower}{rest}."
    if not choice.what:
        return f"{start}."
    end = "; less noise is not tabulated" if found is choice.tried[0] else "; no less noise is refuted"
    return f"{start}{end}{rest}."


def _less(study: Study, found: TabulatedNoise, refuted: TabulatedNoise) -> str:
    """Return the refuted setting by what differs from the one that meets the target, and how much less noise it is."""
    cells = study.spec.cells
    whole = parameters(shortened(cells[found.cell].pair, more=True).canonical()).split(", ")
    less = parameters(shortened(cells[refuted.cell].pair, more=False).canonical()).split(", ")
    words = ", ".join(part for part in less if part not in whole) or ", ".join(less)
    if not 0.0 < refuted.amount < found.amount:
        return words
    return f"{words}, {rounded_up(100.0 * (1.0 - refuted.amount / found.amount), 3)} % less,"


def _left_open(choice: NoiseChoice) -> str:
    """Return how many settings below the one that meets the target, and above the refuted one, have no verdict."""
    tried = list(choice.tried)
    first = 0 if choice.refuted is None else tried.index(choice.refuted) + 1
    last = len(tried) if choice.smallest is None else tried.index(choice.smallest)
    verdicts = [one.verdict for one in tried[first:last]]
    unknown = [one for one in (Verdict.UNDECIDED, Verdict.MISSING) if one in verdicts]
    return " and ".join(f"{verdicts.count(one):,} {one.value}" for one in unknown)
