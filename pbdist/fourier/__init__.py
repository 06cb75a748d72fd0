"""Convolution of masses with certified rounding; the only owner of Fourier transforms and of the rounding bound."""

from pbdist.fourier.chunked import Rounding, convolve, projected_bytes, rounded, rounded_convolution
from pbdist.fourier.rows import convolve_by_tilts
from pbdist.fourier.tilts import Allowance, Needs
from pbdist.fourier.transform import transform_error

__all__ = [
    "Allowance",
    "Needs",
    "Rounding",
    "convolve",
    "convolve_by_tilts",
    "projected_bytes",
    "rounded",
    "rounded_convolution",
    "transform_error",
]
