"""The parameters that an entry of each kind of mechanism has, as models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pbdist import mechanisms
from pbdist.errors import InvalidInputError
from pbdist.mechanisms.pair import Pair
from pbdist.study.alternatives import Entry
from pbdist.study.parameters import (
    Files,
    Masses,
    Names,
    NumberLists,
    NumberPairs,
    Numbers,
    Readings,
    Truncations,
)


class _LaplaceEntry(Entry):
    construct_pair = mechanisms.Laplace
    scale: Numbers
    sensitivity: Numbers | None = None
    truncate: Truncations | None = None


class _LaplaceSumEntry(Entry):
    construct_pair = mechanisms.LaplaceSum
    scales: NumberPairs
    sensitivity: Numbers | None = None


class _GaussianEntry(Entry):
    construct_pair = mechanisms.Gaussian
    scale: Numbers
    sensitivity: Numbers | None = None
    truncate: Truncations | None = None


class _RandomizedResponseEntry(Entry):
    construct_pair = mechanisms.RandomizedResponse
    p: Numbers


class _KaryRandomizedResponseEntry(Entry):
    construct_pair = mechanisms.KaryRandomizedResponse
    p: Numbers
    k: Numbers


class _BoundedRangeEntry(Entry):
    construct_pair = mechanisms.BoundedRange
    eta: Numbers


class _SubsampledGaussianEntry(Entry):
    construct_pair = mechanisms.SubsampledGaussian
    scale: Numbers
    rate: Numbers
    sensitivity: Numbers | None = None


class _SubsampledGaussianGroupEntry(Entry):
    construct_pair = mechanisms.SubsampledGaussianGroup
    scale: Numbers
    rate: Numbers
    group_size: Numbers
    sensitivity: Numbers | None = None


class _RandomAllocationEntry(Entry):
    construct_pair = mechanisms.RandomAllocation
    scale: Numbers
    steps: Numbers
    sensitivity: Numbers | None = None


class _SubsampledLaplaceEntry(Entry):
    construct_pair = mechanisms.SubsampledLaplace
    scale: Numbers
    rate: Numbers
    sensitivity: Numbers | None = None


class _GaussianMixtureEntry(Entry):
    construct_pair = mechanisms.GaussianMixture
    scale: Numbers
    shifts: NumberLists
    weights: NumberLists


class _TruncatedPoissonGaussianEntry(Entry):
    construct_pair = mechanisms.TruncatedPoissonGaussian
    scale: Numbers
    rate: Numbers
    batch: Numbers
    examples: Numbers
    sensitivity: Numbers | None = None


class _FixedBatchGaussianEntry(Entry):
    construct_pair = mechanisms.FixedBatchGaussian
    scale: Numbers
    batch: Numbers
    examples: Numbers
    sensitivity: Numbers | None = None


class _ApproximateDPEntry(Entry):
    construct_pair = mechanisms.ApproximateDP
    epsilon: Numbers
    delta: Numbers


class _HistogramEntry(Entry):
    construct_pair = mechanisms.Histogram
    whole_lists = True
    p: Masses
    q: Masses


def _histogram_of_files(file: tuple[Path, ...], columns: tuple[str, ...] | None = None) -> Pair:
    """Read the counts: the study then holds them itself, and its digest depends on them and not on the file's place."""
    try:
        return mechanisms.load_histograms(*file, columns=columns)
    except InvalidInputError as error:
        field = "columns" if str(error).startswith("columns: ") else "file"
        raise InvalidInputError(f"Histogram.{field}: {str(error).removeprefix('columns: ')}") from error


class HistogramOfFilesEntry(Entry):
    """A histogram whose counts are in files."""

    construct_pair = staticmethod(_histogram_of_files)
    whole_lists = True
    file: Files
    columns: Names | None = None


class _NoisyCountEntry(Entry):
    construct_pair = mechanisms.NoisyCount
    noise: dict[str, Any]
    mean: Numbers
    shift: Numbers
    reading: Readings | None = None


class _PoissonEntry(Entry):
    construct_pair = mechanisms.Poisson
    mean: Numbers
    sensitivity: Numbers | None = None


class _DiscreteLaplaceEntry(Entry):
    construct_pair = mechanisms.DiscreteLaplace
    scale: Numbers
    sensitivity: Numbers | None = None


class _DiscreteGaussianEntry(Entry):
    construct_pair = mechanisms.DiscreteGaussian
    scale: Numbers
    sensitivity: Numbers | None = None


class _StaircaseEntry(Entry):
    construct_pair = mechanisms.Staircase
    epsilon: Numbers
    sensitivity: Numbers | None = None
    split: Numbers | None = None


class _ProductEntry(Entry):
    construct_pair = mechanisms.Product
    pairs: list[Any]


class _ReversedEntry(Entry):
    construct_pair = mechanisms.Reversed
    pair: dict[str, Any]


#: The model of each kind.
ENTRIES: Mapping[str, type[Entry]] = {
    "Laplace": _LaplaceEntry,
    "LaplaceSum": _LaplaceSumEntry,
    "Gaussian": _GaussianEntry,
    "RandomizedResponse": _RandomizedResponseEntry,
    "KaryRandomizedResponse": _KaryRandomizedResponseEntry,
    "BoundedRange": _BoundedRangeEntry,
    "SubsampledGaussian": _SubsampledGaussianEntry,
    "SubsampledGaussianGroup": _SubsampledGaussianGroupEntry,
    "SubsampledLaplace": _SubsampledLaplaceEntry,
    "GaussianMixture": _GaussianMixtureEntry,
    "TruncatedPoissonGaussian": _TruncatedPoissonGaussianEntry,
    "FixedBatchGaussian": _FixedBatchGaussianEntry,
    "RandomAllocation": _RandomAllocationEntry,
    "ApproximateDP": _ApproximateDPEntry,
    "Histogram": _HistogramEntry,
    "NoisyCount": _NoisyCountEntry,
    "Poisson": _PoissonEntry,
    "DiscreteLaplace": _DiscreteLaplaceEntry,
    "DiscreteGaussian": _DiscreteGaussianEntry,
    "Staircase": _StaircaseEntry,
    "Product": _ProductEntry,
    "Reversed": _ReversedEntry,
}
#: The kinds of mechanisms that an entry may have.
KINDS = tuple(ENTRIES)
#: Those of them whose bounds are those of several pairs.
KINDS_OF_SEVERAL = ("TruncatedPoissonGaussian", "FixedBatchGaussian", "SubsampledGaussianGroup")


def models_of(kind: str) -> tuple[type[Entry], ...]:
    """Return the models of entries of a kind, the usual one first: their fields are the parameters."""
    return (ENTRIES[kind], HistogramOfFilesEntry) if kind == "Histogram" else (ENTRIES[kind],)
