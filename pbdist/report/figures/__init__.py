"""Figures of bounds: what a figure file asks for, its data as CSV, and its drawing."""

from pbdist.report.figures.figure import Curve, Figure, Panel, Promise
from pbdist.report.figures.figure_file import load_figure
from pbdist.report.figures.make import make_figure

__all__ = ["Curve", "Figure", "Panel", "Promise", "load_figure", "make_figure"]
