"""Open an export of arrays as the Dataset of its study."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.errors import InvalidInputError, MissingDependencyError
from pbdist.export.about import MARK
from pbdist.mechanisms.columns import known_columns

if TYPE_CHECKING:
    import xarray as xr


def open_export(where: str | Path) -> "xr.Dataset":
    """Open an export that ends in ``.zarr`` or ``.nc``, with the parameters of the cells as one index.

    The result equals `Study.bounds` of the exported store: the same variables, coordinates and indexes with the same
    values and attributes; the attributes of the whole are those of the export. Plain ``xarray.open_zarr(where)`` gives
    the same without the index over ``cell``.

    Raises
    ------
    InvalidInputError
        It is no such export.
    MissingDependencyError
        A package for netCDF is not installed.
    """
    path = Path(where)
    # xarray takes half a second to import.
    xarray = import_module("xarray")
    if not path.exists() or path.suffix not in (".zarr", ".nc"):
        got = path.name if path.exists() else f"nothing at {path}"
        raise InvalidInputError(f"export: expected an export that ends in .zarr or .nc, got {got}")
    if path.suffix == ".nc" and (find_spec("h5netcdf") is None or find_spec("h5py") is None):
        raise MissingDependencyError("an export as .nc needs h5netcdf and h5py: pip install 'pbdist[export]'")
    try:
        dataset: xr.Dataset = (
            xarray.open_zarr(path, chunks=None, consolidated=True)
            if path.suffix == ".zarr"
            else xarray.open_dataset(path, engine="h5netcdf")
        )
    except (OSError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"export: expected an export of pbdist, got {path}: {text}") from error
    if MARK not in dataset.attrs:
        dataset.close()
        raise InvalidInputError(f"export: expected an export of pbdist, got something else at {path}")
    return dataset.set_xindex([name for name in known_columns() if name in dataset]).set_xindex("exp_epsilon")
