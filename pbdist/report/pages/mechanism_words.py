"""Mechanisms in words: what is done, with which parameters in which units, and what is taken for granted."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal

from pbdist.report.pages.document import named
from pbdist.rounding import exact
from pbdist.types import JsonValue

#: What a mechanism of a kind does in a round.
WHAT_IT_DOES: Mapping[str, str] = {
    "Laplace": "Laplace noise is added to an answer that is a number.",
    "Gaussian": "Gaussian noise is added to an answer that is a number, or to a vector.",
    "SubsampledGaussian": (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Gaussian noise is added to what is computed from the sample, as in training with DP-SGD."
    ),
    "SubsampledGaussianGroup": (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Gaussian noise is added to what is computed from the sample. What is protected is a group of"
        " individuals together."
    ),
    "SubsampledLaplace": (
        "Each individual is in the sample of a round with the sampling rate as its probability, independently of all"
        " others; Laplace noise is added to a number that is computed from the sample."
    ),
    "GaussianMixture": (
        "Gaussian noise is added to what an individual moves by one of several shifts, each with its weight as the"
        " probability."
    ),
    "TruncatedPoissonGaussian": (
        "Each individual is in the sample of a round with the sampling rate as its probability; of larger samples a"
        " batch of the largest size is kept; Gaussian noise is added to the sum of what the individuals contribute."
    ),
    "FixedBatchGaussian": (
        "Each round draws a batch of a fixed size without replacement; Gaussian noise is added to the sum of what the"
        " individuals in it contribute."
    ),
    "RandomAllocation": (
        "An epoch has several steps, and each individual's record is used in one of them, chosen at random; Gaussian"
        " noise is added to what each step computes, as in training with DP-SGD by balls and bins."
    ),
    "RandomizedResponse": "A yes-or-no question is answered truthfully with probability p, else with a lie.",
    "KaryRandomizedResponse": (
        "A question with k answers is answered truthfully with probability p, else with another answer, each as likely."
    ),
    "BoundedRange": (
        "Any mechanism whose privacy losses lie in an interval of length η, such as the exponential mechanism."
    ),
    "ApproximateDP": "Any mechanism that is (ε, δ)-differentially private, with the ε and δ of one use.",
    "Histogram": "What is seen follows one of two measured or tabulated distributions.",
    "NoisyCount": (
        "A count is seen to which a whole, never negative number of noise messages was added; the number comes from a"
        " draw of Laplace or Gaussian noise about a mean, real-valued or whole-numbered."
    ),
    "Poisson": "A count is seen to which a Poisson number of noise messages was added.",
    "Staircase": "Staircase noise is added to an answer that is a number.",
    "LaplaceSum": "Two answers have Laplace noise each, and only their sum is seen.",
    "DiscreteLaplace": "Whole-numbered (discrete) Laplace noise is added to an answer that is a whole number.",
    "DiscreteGaussian": "Whole-numbered (discrete) Gaussian noise is added to an answer that is a whole number.",
    "Product": "Several outputs are seen together in every round, each with noise of its own, drawn independently.",
    "Reversed": "The roles of the two inputs are exchanged for this output: it falls where the others rise.",
    "WorstOf": (
        "Several analyses are released together (a release plan). What neighbouring databases differ in varies; the"
        " worst of several pairs counts."
    ),
}

#: What must be true of the system behind a mechanism of a kind: nothing that pbdist could check.
ASSUMED: Mapping[str, str] = {
    "Laplace": (
        "Laplace: one individual moves the answer by at most the sensitivity. The noise is a real number, drawn afresh"
        " and independently in every round, and not known to the observer. An implementation with floating-point"
        " numbers is not this mechanism exactly."
    ),
    "Gaussian": (
        "Gaussian: one individual moves the answer by at most the sensitivity (of a vector: in its Euclidean length)."
        " The noise is a real number, drawn afresh and independently in every round, and not known to the observer. An"
        " implementation with floating-point numbers is not this mechanism exactly."
    ),
    "SubsampledGaussian": (
        "Subsampled Gaussian: the sample is a Poisson sample, in which each individual is with the sampling rate,"
        " independently. Neighbouring data sets differ by one individual added or removed, whose contribution is"
        " clipped to the sensitivity. Batches of a fixed size, or a data set that is shuffled once an epoch, are other"
        " mechanisms, about which nothing is said here. The noise multiplier is scale / sensitivity."
    ),
    "SubsampledGaussianGroup": (
        "Groups on Poisson samples: each individual is in the sample with the sampling rate, independently."
        " Neighbouring data sets differ by at most the given number of individuals, all added or all removed; the"
        " contribution of each one is clipped to the sensitivity."
    ),
    "SubsampledLaplace": (
        "Subsampled Laplace: the sample is a Poisson sample. Neighbouring data sets differ by one individual added or"
        " removed, who moves the number by at most the sensitivity."
    ),
    "GaussianMixture": (
        "Mixture of Gaussians: neighbouring data sets differ by one individual added or removed; which shift it makes"
        " is drawn with the weights, afresh and independently in every round, and not known to the observer. Shifts"
        " that are vectors count by their length."
    ),
    "TruncatedPoissonGaussian": (
        "Truncated Poisson samples: neighbouring data sets differ by one individual added or removed, and the larger"
        " one has the given number of examples. Contributions are clipped to the sensitivity. Which individuals of too"
        " large a sample are kept is drawn uniformly. Lower bounds are those of data sets where no other individual"
        " contributes anything."
    ),
    "FixedBatchGaussian": (
        "Batches of a fixed size: neighbouring data sets have the same number of examples, and one individual is"
        " replaced by another. Contributions are clipped to the sensitivity, so that replacing one moves a sum by up to"
        " twice that. Batches are drawn afresh and independently in every round; a data set that is shuffled once an"
        " epoch is another mechanism. In several rounds the upper bound is that of a pair that dominates, and the lower"
        " bound that of data sets that are known: the truth may lie anywhere between."
    ),
    "RandomAllocation": (
        "Random allocation: a round is an epoch; in each, every record draws its step anew, each with the same"
        " probability and independently of all others. Neighbouring data sets differ by one individual added or"
        " removed, whose contribution is clipped to the sensitivity. Batches of a fixed size, or a data set that is"
        " shuffled and cut into batches, are other mechanisms, about which nothing is said here. The noise multiplier"
        " is scale / sensitivity."
    ),
    "RandomizedResponse": "Randomized response: each answer is drawn afresh and independently of all others.",
    "KaryRandomizedResponse": (
        "k-ary randomized response: each answer is drawn afresh and independently of all others. Neighbouring data sets"
        " differ in the true answer of one individual."
    ),
    "BoundedRange": (
        "Bounded range: for any two neighbouring inputs the privacy losses of one use lie in an interval of length η."
        " That is taken on trust. Upper bounds are those of the worst such mechanism; lower bounds are not known."
    ),
    "ApproximateDP": (
        "(ε, δ): each use meets the ε and δ given. That is taken on trust. The bounds are those of the worst mechanism"
        " that does; a particular one may be better."
    ),
    "Histogram": (
        "Histogram: the two distributions are taken as they were given. Whether what was measured is what an observer"
        " sees, how exact the measurement is, and whether these two inputs are the worst ones, is not checked. A round"
        " must be independent of the others."
    ),
    "NoisyCount": (
        "Noisy count: one individual's action raises the count by at most the shift. The observer may know everybody"
        " else's share of it. The number of noise messages is drawn afresh and independently in every round, and not"
        " known to the observer."
    ),
    "Poisson": (
        "Poisson: one individual's action raises the count by at most the sensitivity. Only the noise of honest servers"
        " hides anything: the mean is that of their noise alone."
    ),
    "Staircase": "Staircase: one individual moves the answer by at most the sensitivity; the noise is a real number.",
    "LaplaceSum": (
        "Sum of two Laplace noises: the observer sees the sum alone, never one of the two values; one individual moves"
        " the sum by at most the sensitivity."
    ),
    "DiscreteLaplace": "Discrete Laplace: one individual moves the answer by at most the sensitivity, whole.",
    "DiscreteGaussian": "Discrete Gaussian: one individual moves the answer by at most the sensitivity, whole.",
    "Product": (
        "Several outputs: neighbouring inputs differ in all of them at once, in the directions given, and the noises"
        " are independent of each other."
    ),
    "Reversed": "An output that is reversed falls where the others rise.",
    "WorstOf": (
        "Release plan: each analysis reads the parts that the plan declares and nothing else, and is as private as its"
        " mechanism says. What no change of the database is declared to attain has no lower bound: it is not known, not"
        " 0."
    ),
}

#: How a draw becomes a number of noise messages.
READINGS_IN_WORDS: Mapping[str, str] = {
    "clamp-and-ceil": (
        "clamp-and-ceil: a draw below 0 becomes 0, any other is rounded up, as in the specification of Vuvuzela. A"
        " total below the shift reveals the input."
    ),
    "redraw-and-floor": (
        "redraw-and-floor: a draw below 0 is drawn again, any other is rounded down, as in the published code of"
        " Vuvuzela. A total below the shift reveals the input."
    ),
    "shift-inside": (
        "shift-inside: the true count is added before the result is cut at 0. A system that adds noise messages to real"
        " ones cannot do that: do not rely on this reading for one, it promises too much."
    ),
}

#: Parameters and their units.
UNITS: Mapping[str, str] = {
    "scale": (
        "how much noise: the standard deviation of Gaussian noise, the b of Laplace noise (standard deviation √2 b);"
        " in the units of the answer, of a count in messages"
    ),
    "sensitivity": "by how much one individual moves the answer, in the same units",
    "rate": "probability that an individual is in the sample of a round",
    "batch": "the individuals of a batch, or the most of them",
    "examples": "the individuals of the data set",
    "shifts": "by how much one individual moves the answer, one of these",
    "weights": "the probabilities of the shifts",
    "steps": "steps of a round, in one of which a record is used",
    "p": "probability of the true answer",
    "k": "number of answers",
    "eta": "length η of the interval in which the losses of one use lie, in nats",
    "mean": "mean of the noise, in messages",
    "shift": "by how much one individual's action changes the count, in messages",
    "truncate": "limits about the mean at which the noise is cut, in the units of the answer",
    "epsilon": "ε of one use, in nats",
    "delta": "δ of one use",
    "split": "where in a stretch of one sensitivity the density of staircase noise falls",
    "scales": "scales of the two noises, in the units of the answer",
    "factor": "ratio between neighbouring buckets",
}


def kinds_of(form: Mapping[str, JsonValue]) -> set[str]:
    """Return the kinds of mechanisms in a canonical form."""
    inner = [form["pair"]] if "pair" in form else form.get("pairs", [])
    return {form["mechanism"], *(kind for one in inner for kind in kinds_of(one))}


def readings_of(form: Mapping[str, JsonValue]) -> set[str]:
    """Return the readings of the noisy counts in a canonical form."""
    inner = [form["pair"]] if "pair" in form else form.get("pairs", [])
    own = {form["reading"]} if isinstance(form.get("reading"), str) else set()
    return {*own, *(reading for one in inner for reading in readings_of(one))}


def parameters(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> str:
    """Return the parameters of a canonical form in words, but `hidden` ones of a mechanism that is not a product."""
    kind = form["mechanism"]
    if kind == "WorstOf":
        return f"worst of {len(form['pairs'])}: {_joined([_of_factor(one) for one in form['pairs']], '; or ')}"
    if kind == "Product":
        return _together(form["pairs"])
    if kind == "Reversed":
        return f"reversed: {_of_factor(form['pair'])}"
    return ", ".join(_values(form, hidden))


def _together(pairs: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return the factors of a product, with what all of them share said once."""
    simple = all("noise" in one or "scale" in one for one in pairs) and len({one["mechanism"] for one in pairs}) == 1
    if not simple:
        return f"together: {_joined([_of_factor(one) for one in pairs], '; and ')}"
    values = [_values(one) for one in pairs]
    shared = [text for text in values[0] if all(text in one for one in values)] if len(pairs) > 1 else []
    own = [", ".join(text for text in one if text not in shared) for one in values]
    kind = "noisy counts" if pairs[0]["mechanism"] == "NoisyCount" else f"{pairs[0]['mechanism']} noise"
    with_all = f"; all with {', '.join(shared)}" if shared else ""
    if not any(own):
        return f"together: {len(pairs)} times {kind}{with_all}"
    return f"together: {'' if kind == 'noisy counts' else kind + '; '}{_joined(own, ' and ')}{with_all}"


def _of_factor(form: Mapping[str, JsonValue]) -> str:
    if form["mechanism"] in ("Product", "Reversed", "WorstOf"):
        return parameters(form)
    return ", ".join(([] if form["mechanism"] == "NoisyCount" else [form["mechanism"]]) + _values(form))


def _joined(parts: list[str], between: str) -> str:
    """Return parts of a whole, equal ones once."""
    counts = Counter(parts)
    told = [
        f"({text})" if times == 1 and len(counts) > 1 else text if times == 1 else f"{times} times {text}"
        for text, times in counts.items()
    ]
    more = [] if len(told) <= 4 else [f"{len(told) - 3} more"]
    return between.join([*told[: 4 if not more else 3], *more])


def _values(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> list[str]:
    found: list[str] = []
    for name, value in form.items():
        if name == "noise" and isinstance(value, Mapping):
            found += [] if name in hidden else [f"{value['mechanism']} noise"]
            found += _values({**value, "sensitivity": None})
        elif name == "mechanism" or name in hidden or value is None:
            continue
        elif name in ("p", "q") and isinstance(value, list):
            found.append(f"{name} of {len(value):,} values")
        elif isinstance(value, list | tuple):
            found.append(f"{name} {(' to ' if name == 'truncate' else ' and ').join(map(_number, value))}")
        else:
            found.append(f"{name} {_number(value)}")
    return found


def _number(value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return named(str(value))
    if isinstance(value, float):
        return exact(value)
    return str(value) if abs(value) < 10**15 else f"{Decimal(value):.6e}"
