"""Convolution of masses with certified rounding; the only owner of Fourier transforms and of the rounding bound."""

from pbdist.buckets.convolution.chunked import Rounding, convolve, projected_bytes, rounded_convolution
from pbdist.buckets.convolution.transform import transform_error

__all__ = ["Rounding", "convolve", "projected_bytes", "rounded_convolution", "transform_error"]
