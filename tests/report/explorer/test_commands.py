"""The command beside each point: it gives the numbers that the page shows."""

import json
import shlex

import numpy as np
import pytest

from pbdist.cli import main
from pbdist.report.explorer.answers import cell_tables, query_command
from pbdist.report.explorer.snapshot import take_snapshot
from tests.report.explorer.studies import HOSTILE, STUDY
from tests.studies import compute_store


def test_every_command_gives_the_numbers_shown(finished_store, capsys):
    snapshot = take_snapshot(str(finished_store(STUDY)))
    study = snapshot.union.study
    cells = range(len(study.cells))
    tables = cell_tables(snapshot, list(cells))
    for cell in range(0, len(cells), 3):
        command = query_command(snapshot, cell)
        assert command is not None
        r, e = cell % 3, cell % 6
        point = f"--compositions={study.compositions[r]} --epsilon={study.epsilon[e]!r}"
        program, *words = shlex.split(f"{command} {point}")
        assert program == "pbdist"
        assert main([*words, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["answers"]
        assert found["setting"] == study.cells[cell].describe()
        shown = {name: values[cell, r, e] for name, values in tables.values.items()}
        told = {name: np.nan if value is None else value for name, value in found.items()}
        for name, value in shown.items():
            # JSON has no infinity: the logarithm of 0 is null.
            assert told[name] == value or (np.isnan(told[name]) and not np.isfinite(value)), (cell, name)


def test_a_label_cannot_become_another_command(finished_store):
    snapshot = take_snapshot(str(finished_store(STUDY)))
    cell = snapshot.columns["mechanism"].tolist().index(HOSTILE)
    assert shlex.split(query_command(snapshot, cell))[-1] == f"--mechanism={HOSTILE}"


_HISTOGRAMS = """\
  - {label: h, kind: Histogram, p: [0.5, 0.5], q: [0.4, 0.6]}
  - {label: h, kind: Histogram, p: [0.7, 0.3], q: [0.4, 0.6]}
"""
_TRUNCATED = """\
  - {kind: Laplace, scale: 5}
  - {kind: Laplace, scale: 5, truncate: [-20, 20]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("mechanisms", "told"), [(_HISTOGRAMS, [True, True]), (_TRUNCATED, [False, True])])
def test_settings_that_no_option_tells_apart_have_none(tmp_path, mechanisms, told):
    text = f"format: 1\nname: alike\nmechanisms:\n{mechanisms}compositions: [1]\nepsilon: [1]\n"
    snapshot = take_snapshot(str(compute_store(tmp_path, text)))
    assert [query_command(snapshot, cell) is not None for cell in range(2)] == told


def test_histograms_are_named_by_their_masses(tmp_path, capsys):
    store = compute_store(tmp_path, f"format: 1\nname: a\nmechanisms:\n{_HISTOGRAMS}compositions: [1]\nepsilon: [1]\n")
    snapshot = take_snapshot(str(store))
    for cell in range(2):
        _, *words = shlex.split(f"{query_command(snapshot, cell)} --compositions=1 --epsilon=1 --json")
        assert "--pair-p=" in " ".join(words)
        assert main(words) == 0
        assert (
            json.loads(capsys.readouterr().out)["answers"][0]["setting"] == snapshot.union.study.cells[cell].describe()
        )
