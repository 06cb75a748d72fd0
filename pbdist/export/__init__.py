"""A study as one flat table for other programs: zarr, netCDF, Parquet or CSV, in one piece whatever its parts."""

from pbdist.export.write import Exported, export_study

__all__ = ["Exported", "export_study"]
