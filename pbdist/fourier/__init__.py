"""Convolution of masses with certified rounding: the only package that transforms, and that rounds what comes back."""

from pbdist.fourier.convolution import Rounding, convolve, convolve_plainly, plain_error, rounded, rounded_convolution
from pbdist.fourier.tilts import Allowance, Needs, convolve_by_tilts
from pbdist.fourier.transform import transform_error

__all__ = [
    "Allowance",
    "Needs",
    "Rounding",
    "convolve",
    "convolve_by_tilts",
    "convolve_plainly",
    "plain_error",
    "rounded",
    "rounded_convolution",
    "transform_error",
]
