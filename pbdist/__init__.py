"""Certified upper and lower bounds on r-fold approximate differential privacy.

`privacy_bounds` and `epsilon_bounds` bound δ and ε of one mechanism, `size` finds the smallest noise that keeps a
promise, and `open_study` opens the store that ``pbdist run`` has computed. The README begins with a first result.
"""

TYPE_CHECKING = False  # As in `typing`: the command line has nothing imported before it watches its signals.
if TYPE_CHECKING:
    from typing import Any

    from pbdist.accounting.accountant import Accountant
    from pbdist.bounds.curves import renyi_bounds, total_variation_bounds, tradeoff_bounds
    from pbdist.bounds.delta import epsilon_bounds, privacy_bounds
    from pbdist.errors import (
        BatchError,
        InvalidInputError,
        MissingDependencyError,
        NotAStoreError,
        OffGridError,
        PbdistError,
        PrecisionError,
        PrecisionWarning,
        StoreDamagedError,
        StoreFormatError,
        StoreIncompleteError,
        StoreMismatchError,
        StudyFileError,
    )
    from pbdist.export import export_study
    from pbdist.granularity.group import group
    from pbdist.mechanisms import (
        ApproximateDP,
        BoundedRange,
        DiscreteGaussian,
        DiscreteLaplace,
        FixedBatchGaussian,
        Gaussian,
        GaussianMixture,
        Histogram,
        KaryRandomizedResponse,
        Laplace,
        LaplaceSum,
        MetricDP,
        NoisyCount,
        Poisson,
        Product,
        RandomAllocation,
        RandomizedResponse,
        Reversed,
        Staircase,
        SubsampledGaussian,
        SubsampledGaussianGroup,
        SubsampledLaplace,
        TruncatedPoissonGaussian,
        WorstOf,
        exponential_mechanism,
        load_histograms,
        permute_and_flip,
    )
    from pbdist.query import open_study
    from pbdist.sizing.api import size
    from pbdist.sizing.comparison import SizedFamilies, size_families
    from pbdist.sizing.families import CountFamily
    from pbdist.sizing.sized import SizedNoise
    from pbdist.theorems import earlier_bounds

__all__ = [
    "Accountant",
    "ApproximateDP",
    "BatchError",
    "BoundedRange",
    "CountFamily",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FixedBatchGaussian",
    "Gaussian",
    "GaussianMixture",
    "Histogram",
    "InvalidInputError",
    "KaryRandomizedResponse",
    "Laplace",
    "LaplaceSum",
    "MetricDP",
    "MissingDependencyError",
    "NoisyCount",
    "NotAStoreError",
    "OffGridError",
    "PbdistError",
    "Poisson",
    "PrecisionError",
    "PrecisionWarning",
    "Product",
    "RandomAllocation",
    "RandomizedResponse",
    "Reversed",
    "SizedFamilies",
    "SizedNoise",
    "Staircase",
    "StoreDamagedError",
    "StoreFormatError",
    "StoreIncompleteError",
    "StoreMismatchError",
    "StudyFileError",
    "SubsampledGaussian",
    "SubsampledGaussianGroup",
    "SubsampledLaplace",
    "TruncatedPoissonGaussian",
    "WorstOf",
    "__version__",
    "earlier_bounds",
    "epsilon_bounds",
    "exponential_mechanism",
    "export_study",
    "group",
    "load_histograms",
    "open_study",
    "permute_and_flip",
    "privacy_bounds",
    "renyi_bounds",
    "size",
    "size_families",
    "total_variation_bounds",
    "tradeoff_bounds",
]

__version__ = "0.1.0"

# Names are looked up when first used, so that `pbdist --help` need not wait for numpy, xarray and zarr.
_ROOMS = {name: "pbdist.errors" for name in __all__ if name.endswith(("Error", "Warning"))}
_ROOMS |= {
    "Accountant": "pbdist.accounting.accountant",
    "epsilon_bounds": "pbdist.bounds.delta",
    "privacy_bounds": "pbdist.bounds.delta",
    "open_study": "pbdist.query",
    "export_study": "pbdist.export",
    "earlier_bounds": "pbdist.theorems",
    "group": "pbdist.granularity.group",
}
_ROOMS |= dict.fromkeys(("renyi_bounds", "total_variation_bounds", "tradeoff_bounds"), "pbdist.bounds.curves")
_ROOMS |= dict.fromkeys(("CountFamily", "SizedNoise", "size"), "pbdist.sizing.api")
_ROOMS |= dict.fromkeys(("SizedFamilies", "size_families"), "pbdist.sizing.comparison")


def __getattr__(name: str) -> "Any":
    """Import a public name from its room on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'pbdist' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_ROOMS.get(name, "pbdist.mechanisms")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
