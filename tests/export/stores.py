"""Stores that are exported: one that was extended, and one with release plans."""

from pathlib import Path

import xarray as xr

from pbdist.mechanisms.columns import known_columns
from pbdist.run import SerialExecutor, run_study
from pbdist.study import load_study
from tests.studies import write_study

#: The last one is a label that a table must quote.
FIRST = """\
format: 1
name: shared
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
  - {kind: SubsampledGaussian, scale: 2, rate: 0.01}
  - {label: 'a "b", <c>', kind: RandomizedResponse, p: 0.6}
tolerance: 0.01
compositions: [1, 4]
epsilon: [0, 0.5, 2]
"""
LARGER = FIRST.replace("[2, 3]", "[1.5, 2, 3]").replace("[1, 4]", "[1, 2, 4]").replace("[0, 0.5, 2]", "[0, 0.5, 1, 2]")
#: Release plans of which the first has lower bounds and the second one has none.
RELEASES = """\
format: 1
name: releases
mechanisms:
  - label: counts
    kind: ReleasePlan
    granularity: unbounded
    blocks: {overlapping: 5, at_most: 2}
    analyses:
      - {name: count, pair: {kind: Laplace, scale: 4}, reads_each: all, attained: every}
  - label: unattained
    kind: ReleasePlan
    granularity: bounded
    blocks: {overlapping: 4, at_most: 3}
    analyses:
      - {name: n, pair: {kind: ApproximateDP, epsilon: 0.5, delta: 1e-5}, declared: bounded, domain: common,
         reads_each: all}
compositions: [1, 2]
epsilon: [0.5, 2]
"""
#: Each point as one row, in both directions.
ROWS = 5 * 2 * 3 * 4
FORMS = (".zarr", ".nc", ".parquet", ".csv")


def open_export(out: Path) -> xr.Dataset:
    """Open exported arrays as anybody does, with the index of the cells."""
    plain = xr.open_zarr(out, chunks=None) if out.suffix == ".zarr" else xr.open_dataset(out, engine="h5netcdf")
    return plain.set_xindex([name for name in known_columns() if name in plain]).set_xindex("exp_epsilon")


def extended_store(folder: Path) -> Path:
    """A store of several parts, complete."""
    for text in (FIRST, LARGER):
        run_study(load_study(write_study(folder, text)), folder / "s.zarr", SerialExecutor(), lambda _: None)
    return folder / "s.zarr"
