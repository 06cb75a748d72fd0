"""Certified upper and lower bounds on r-fold approximate differential privacy.

`privacy_bounds` and `epsilon_bounds` bound δ and ε of one mechanism, `size` finds the smallest noise that keeps a
promise, and `open_study` opens the store that ``pbdist run`` has computed. The README begins with a first result.
"""

TYPE_CHECKING = False  # As in `typing`: the command line has nothing imported before it watches its signals.
if TYPE_CHECKING:
    from typing import Any

    from pbdist.accounting.accountant import Accountant as Accountant
    from pbdist.bounds.curves import renyi_bounds as renyi_bounds
    from pbdist.bounds.curves import total_variation_bounds as total_variation_bounds
    from pbdist.bounds.curves import tradeoff_bounds as tradeoff_bounds
    from pbdist.bounds.delta import epsilon_bounds as epsilon_bounds
    from pbdist.bounds.delta import privacy_bounds as privacy_bounds
    from pbdist.errors import BatchError as BatchError
    from pbdist.errors import InvalidInputError as InvalidInputError
    from pbdist.errors import MissingDependencyError as MissingDependencyError
    from pbdist.errors import NotAStoreError as NotAStoreError
    from pbdist.errors import OffGridError as OffGridError
    from pbdist.errors import PbdistError as PbdistError
    from pbdist.errors import PrecisionError as PrecisionError
    from pbdist.errors import PrecisionWarning as PrecisionWarning
    from pbdist.errors import StoreDamagedError as StoreDamagedError
    from pbdist.errors import StoreFormatError as StoreFormatError
    from pbdist.errors import StoreIncompleteError as StoreIncompleteError
    from pbdist.errors import StoreMismatchError as StoreMismatchError
    from pbdist.errors import StudyFileError as StudyFileError
    from pbdist.export import export_study as export_study
    from pbdist.granularity.group import group as group
    from pbdist.mechanisms import ApproximateDP as ApproximateDP
    from pbdist.mechanisms import BoundedRange as BoundedRange
    from pbdist.mechanisms import DiscreteGaussian as DiscreteGaussian
    from pbdist.mechanisms import DiscreteLaplace as DiscreteLaplace
    from pbdist.mechanisms import FixedBatchGaussian as FixedBatchGaussian
    from pbdist.mechanisms import Gaussian as Gaussian
    from pbdist.mechanisms import GaussianMixture as GaussianMixture
    from pbdist.mechanisms import Histogram as Histogram
    from pbdist.mechanisms import KaryRandomizedResponse as KaryRandomizedResponse
    from pbdist.mechanisms import Laplace as Laplace
    from pbdist.mechanisms import LaplaceSum as LaplaceSum
    from pbdist.mechanisms import MetricDP as MetricDP
    from pbdist.mechanisms import NoisyCount as NoisyCount
    from pbdist.mechanisms import Poisson as Poisson
    from pbdist.mechanisms import Product as Product
    from pbdist.mechanisms import RandomAllocation as RandomAllocation
    from pbdist.mechanisms import RandomizedResponse as RandomizedResponse
    from pbdist.mechanisms import Reversed as Reversed
    from pbdist.mechanisms import Staircase as Staircase
    from pbdist.mechanisms import SubsampledGaussian as SubsampledGaussian
    from pbdist.mechanisms import SubsampledGaussianGroup as SubsampledGaussianGroup
    from pbdist.mechanisms import SubsampledLaplace as SubsampledLaplace
    from pbdist.mechanisms import TruncatedPoissonGaussian as TruncatedPoissonGaussian
    from pbdist.mechanisms import WorstOf as WorstOf
    from pbdist.mechanisms import exponential_mechanism as exponential_mechanism
    from pbdist.mechanisms import load_histograms as load_histograms
    from pbdist.mechanisms import permute_and_flip as permute_and_flip
    from pbdist.query import open_study as open_study
    from pbdist.sizing.api import size as size
    from pbdist.sizing.comparison import SizedFamilies as SizedFamilies
    from pbdist.sizing.comparison import size_families as size_families
    from pbdist.sizing.families import CountFamily as CountFamily
    from pbdist.sizing.sized import SizedNoise as SizedNoise
    from pbdist.theorems import earlier_bounds as earlier_bounds

__version__ = "0.1.0"

#: The public names by their modules, imported on first use: `pbdist --help` need not wait for numpy, xarray and zarr.
_NAMES = {
    "pbdist.accounting.accountant": "Accountant",
    "pbdist.bounds.curves": "renyi_bounds total_variation_bounds tradeoff_bounds",
    "pbdist.bounds.delta": "epsilon_bounds privacy_bounds",
    "pbdist.errors": (
        "BatchError InvalidInputError MissingDependencyError NotAStoreError OffGridError PbdistError PrecisionError "
        "PrecisionWarning StoreDamagedError StoreFormatError StoreIncompleteError StoreMismatchError StudyFileError"
    ),
    "pbdist.export": "export_study",
    "pbdist.granularity.group": "group",
    "pbdist.mechanisms": (
        "ApproximateDP BoundedRange DiscreteGaussian DiscreteLaplace FixedBatchGaussian Gaussian GaussianMixture "
        "Histogram KaryRandomizedResponse Laplace LaplaceSum MetricDP NoisyCount Poisson Product RandomAllocation "
        "RandomizedResponse Reversed Staircase SubsampledGaussian SubsampledGaussianGroup SubsampledLaplace "
        "TruncatedPoissonGaussian WorstOf exponential_mechanism load_histograms permute_and_flip"
    ),
    "pbdist.query": "open_study",
    "pbdist.sizing.api": "size",
    "pbdist.sizing.comparison": "SizedFamilies size_families",
    "pbdist.sizing.families": "CountFamily",
    "pbdist.sizing.sized": "SizedNoise",
    "pbdist.theorems": "earlier_bounds",
}
_ROOMS = {name: room for room, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_ROOMS]  # noqa: PLE0604 -- all are texts


def __getattr__(name: str) -> "Any":
    """Import a public name from its room on first use."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'pbdist' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_ROOMS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
