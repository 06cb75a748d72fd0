"""Other names for the keys and kinds of study files, and what the right key means.

People come with the words of their own field or library: ``variance`` for a scale, ``steps`` for compositions.
"""

import re
from collections.abc import Iterable, Mapping

from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: The owners of keys that are no kind of mechanism.
STUDY, TARGET = "study", "target"

#: What people also call kinds of mechanisms, in lower case.
OTHER_KINDS: Mapping[str, str] = {
    "normal": "Gaussian",
    "gauss": "Gaussian",
    "exponential": "Laplace",
    "laplacian": "Laplace",
    "dp-sgd": "SubsampledGaussian",
    "dpsgd": "SubsampledGaussian",
    "dp_sgd": "SubsampledGaussian",
    "poissonsampledgaussian": "SubsampledGaussian",
    "poissonsampledlaplace": "SubsampledLaplace",
    "mixtureofgaussians": "GaussianMixture",
    "mixturegaussian": "GaussianMixture",
    "truncatedsubsampledgaussian": "TruncatedPoissonGaussian",
    "sampledwithoutreplacement": "FixedBatchGaussian",
    "geometric": "DiscreteLaplace",
    "twosidedgeometric": "DiscreteLaplace",
    "ballsandbins": "RandomAllocation",
    "balls-and-bins": "RandomAllocation",
    "balls_and_bins": "RandomAllocation",
    "rr": "RandomizedResponse",
    "krr": "KaryRandomizedResponse",
    "k-rr": "KaryRandomizedResponse",
    "grr": "KaryRandomizedResponse",
    "generalizedrandomizedresponse": "KaryRandomizedResponse",
    "exponentialmechanism": "BoundedRange",
    "gumbel": "BoundedRange",
    "adp": "ApproximateDP",
    "composition": "Product",
    "measured": "Histogram",
}

_SPREADS = (
    "variance",
    "var",
    "sigma",
    "sigma_squared",
    "σ",
    "sd",
    "std",
    "stdev",
    "stddev",
    "standard_deviation",
    "noise_multiplier",
    "multiplier",
    "noise_scale",
    "b",
    "lambda",
    "gamma",
)
_GAUSSIAN = "scale is the standard deviation, the square root of the variance"
_LAPLACE = "scale is b of the density e^(-|x| / b) / (2 b): the variance is 2 b², the standard deviation √2 b"
_DISCRETE_LAPLACE = "scale is b of the probabilities in proportion to e^(-|k| / b): for large b the variance is 2 b²"
#: For each kind the key that tells how much noise there is, and what it means.
_NOISE: Mapping[str, tuple[str, str]] = {
    "Gaussian": ("scale", _GAUSSIAN),
    "DiscreteGaussian": ("scale", "scale is σ of the probabilities in proportion to e^(-k² / (2 σ²))"),
    "Laplace": ("scale", _LAPLACE),
    "DiscreteLaplace": ("scale", _DISCRETE_LAPLACE),
    "LaplaceSum": ("scales", f"scales are two numbers, each as of a Laplace: {_LAPLACE}"),
    "SubsampledGaussian": (
        "scale",
        "scale is the standard deviation of the noise: the noise multiplier times the sensitivity",
    ),
    **dict.fromkeys(
        ("GaussianMixture", "TruncatedPoissonGaussian", "FixedBatchGaussian", "SubsampledGaussianGroup"),
        ("scale", "scale is the standard deviation of the noise: the noise multiplier times the clipping norm"),
    ),
    "SubsampledLaplace": ("scale", _LAPLACE),
    "RandomAllocation": (
        "scale",
        "scale is the standard deviation of the noise of a step: the noise multiplier times the sensitivity",
    ),
    "NoisyCount": ("noise", "the scale belongs to the noise: noise: {kind: Laplace, scale: ..}"),
    "Poisson": ("mean", "mean is the mean of the noise, which is its variance too"),
    "Staircase": ("epsilon", "epsilon tells how much noise there is: that of one round"),
    "BoundedRange": ("eta", "eta is the length of the interval of the losses of one round"),
}
_RATES = ("q", "sampling_rate", "sample_rate", "sampling", "sampling_probability", "sample_probability", "fraction")
_SENSITIVITIES = (
    *("delta_f", "l1_sensitivity", "l2_sensitivity", "clip", "clipping_norm", "max_grad_norm", "l2_norm_clip", "df"),
)
_BATCHES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("batch_size", "b", "sample_size"), ("batch", "batch is the number of records of a batch")),
    **dict.fromkeys(
        ("n", "dataset_size", "source_dataset_size", "data_size", "records"),
        ("examples", "examples is the number of records of the data set"),
    ),
}
_ROUNDS = ("r", "n", "k", "steps", "rounds", "iterations", "queries", "num_steps", "number_of_compositions")
_OF_ROUNDS = ("compositions", "compositions is r, how often a mechanism is run: rounds, steps or queries")
_OF_EPSILON = ("epsilon", "epsilon is ε, in nats")
_OF_EXP_EPSILON = ("exp_epsilon", "exp_epsilon is e^ε")
_GRID_KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(_ROUNDS, _OF_ROUNDS),
    **dict.fromkeys(("eps", "epsilons", "ε"), _OF_EPSILON),
    **dict.fromkeys(("exp_eps", "e_epsilon", "e^epsilon", "e^eps", "e^ε", "exp(epsilon)"), _OF_EXP_EPSILON),
}
_OTHER_KEYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    STUDY: {
        **_GRID_KEYS,
        **dict.fromkeys(("accuracy", "precision", "rtol"), ("tolerance", "")),
        **dict.fromkeys(("bins", "number_of_buckets"), ("buckets", "")),
        **dict.fromkeys(("goals", "questions"), ("targets", "")),
        **dict.fromkeys(("noise", "settings", "kinds"), ("mechanisms", "mechanisms is a list of entries, each a kind")),
        "delta": ("targets", "a δ belongs to a target: targets: [{epsilon: .., delta: .., compositions: ..}]"),
        **dict.fromkeys(
            ("neighbours", "neighbors", "neighbouring", "neighboring", "neighbouring_relation", "neighboring_relation"),
            ("adjacency", "adjacency is for which neighbours: add-or-remove, replace-one or zero-out"),
        ),
        "version": ("format", ""),
        "title": ("description", ""),
    },
    TARGET: _GRID_KEYS,
    "RandomizedResponse": {
        **dict.fromkeys(("epsilon", "eps", "ε"), ("p", "p is the probability of the truth, e^ε / (1 + e^ε)")),
        **dict.fromkeys(("probability", "truth", "q"), ("p", "p is the probability of the truth")),
    },
    "KaryRandomizedResponse": {
        **dict.fromkeys(("epsilon", "eps", "ε"), ("p", "p is the probability of the truth, e^ε / (e^ε + k - 1)")),
        **dict.fromkeys(("probability", "truth", "q"), ("p", "p is the probability of the truth")),
        **dict.fromkeys(
            ("noise_parameter", "flip_probability"),
            ("p", "p is 1 - f (k - 1) / k for an answer drawn with probability f"),
        ),
        **dict.fromkeys(("answers", "num_buckets", "buckets", "d", "n"), ("k", "k is the number of answers")),
    },
    "BoundedRange": {
        **dict.fromkeys(("epsilon", "eps", "ε", "range"), ("eta", "eta is the length of the interval of the losses")),
    },
    **{
        kind: dict.fromkeys(_RATES, ("rate", "rate is the probability with which a record is in a sample"))
        for kind in ("SubsampledGaussian", "SubsampledLaplace")
    },
    "SubsampledGaussianGroup": {
        **dict.fromkeys(_RATES, ("rate", "rate is the probability with which each record is in a sample")),
        **dict.fromkeys(("group", "size", "k"), ("group_size", "group_size is the most records of the group")),
    },
    "TruncatedPoissonGaussian": {
        **dict.fromkeys(_RATES, ("rate", "rate is the probability with which a record is in a sample")),
        **_BATCHES,
        **dict.fromkeys(("truncated_batch_size",), ("batch", "batch is the most records of a sample")),
    },
    "FixedBatchGaussian": {
        **_BATCHES,
        **dict.fromkeys((*_RATES, "rate"), ("batch", "batch and examples are numbers of records")),
    },
    "GaussianMixture": {
        **dict.fromkeys(("sensitivities", "sensitivity", "means"), ("shifts", "shifts are by how much a record moves")),
        **dict.fromkeys(("sampling_probs", "probabilities", "rates"), ("weights", "weights are probabilities")),
    },
    **{
        kind: dict.fromkeys(("epsilon", "eps", "ε"), ("scale", "scale is sensitivity / ε for the ε of one round"))
        for kind in ("Laplace", "DiscreteLaplace")
    },
}
_ARITHMETIC = re.compile(r"[\d.,_\s]*(e\^|exp|ln|log|sqrt|√|\^|\*\*|/|[\d][,_]\d)[\w.,^*/()\s+-]*")


def meant_key(owner: str, key: str, known: Iterable[str]) -> tuple[str | None, str]:
    """Return the key that an unknown key is likely to mean, and what to say of it at the end of an error."""
    names = tuple(known)
    word = key.lower().replace("-", "_").replace(" ", "_")
    meant, told = _OTHER_KEYS.get(owner, {}).get(word, ("", ""))
    if not meant and word in _SPREADS:
        meant, told = _NOISE.get(owner, ("", ""))
    if not meant and word in _SENSITIVITIES:
        meant = "sensitivity"
    if not meant and word in ("mechanism", "type", "family", "noise"):
        meant = "kind"
    if meant in names:
        return meant, f": {told}" if told else f": did you mean {meant}?"
    return likely(key, names), did_you_mean(key, names)


def unknown_key(owner: str, key: str, known: Iterable[str]) -> str:
    """Return what is wrong with a key that is not known."""
    names = tuple(known)
    return f"expected one of {', '.join(names)}, got an unknown key{meant_key(owner, key, names)[1]}"


def number_hint(value: JsonValue) -> str:
    """Return what to write instead of a text that is arithmetic, for the end of an error; nothing for other values."""
    return ": write out the number" if isinstance(value, str) and _ARITHMETIC.fullmatch(value) else ""


def is_exponential(value: JsonValue) -> bool:
    """Whether a value is a text like ``e^0.5`` or ``ln 2``, with which people mean e^ε."""
    return isinstance(value, str) and value.lstrip().startswith(("e^", "exp", "ln", "log")) and bool(number_hint(value))
