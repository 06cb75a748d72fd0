"""Answer questions from a store. What it lacks is computed, and added to it, only by `pbdist.query.refine`."""

from pbdist.query.noise_choice import NoiseChoice, TabulatedNoise, noise_choices
from pbdist.query.status import Precision, WidestBracket, reached_precision
from pbdist.query.study import Study, open_study
from pbdist.results import Verdict

__all__ = [
    "NoiseChoice",
    "Precision",
    "Study",
    "TabulatedNoise",
    "Verdict",
    "WidestBracket",
    "noise_choices",
    "open_study",
    "reached_precision",
]
