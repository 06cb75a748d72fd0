"""Plots of Datasets and stores: xarray in, axes out."""

from pbdist.report.plots.bounds import compositions, epsilon_delta
from pbdist.report.plots.compare import compare
from pbdist.report.plots.noise import noise
from pbdist.report.plots.tradeoff import tradeoff
from pbdist.report.plots.training import training

__all__ = ["compare", "compositions", "epsilon_delta", "noise", "tradeoff", "training"]
