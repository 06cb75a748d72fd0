"""A store whose labels are hostile: pages in every format, with pictures."""

from dataclasses import replace

import pytest

from pbdist.report.pages.document import Command
from pbdist.report.pages.files import report_files
from pbdist.report.pages.store_report import store_report
from pbdist.run import SerialExecutor, run_study
from pbdist.study import Target, load_study
from tests.report.pages.reading import OWN, read_page
from tests.report.pages.test_writers import HOSTILE
from tests.studies import TINY, write_study

TARGET = Target(compositions=4, epsilon=0.0, delta=0.5)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store as somebody else's program might have written it: a study file takes no such labels."""
    folder = tmp_path_factory.mktemp("hostile")
    spec = load_study(write_study(folder, TINY.partition("targets")[0]))
    labels = [text for text in HOSTILE[:-1:2] if "\ud800" not in text and "\x00" not in text]
    cells = [replace(spec.cells[0], label=label) for label in labels]
    cells += [replace(spec.cells[1], label=labels[0]), replace(spec.cells[2], label=labels[0])]
    run_study(replace(spec, cells=tuple(cells)), folder / "s.zarr", SerialExecutor(), lambda _: None)
    return store_report(folder / "s.zarr", targets=(TARGET,)), labels


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["html", "md", "pdf"])
def test_every_format_takes_any_label(hostile, tmp_path, kind):
    made, labels = hostile
    assert made.whole
    assert made.pictures
    commands = [block.text for block in made.everything if isinstance(block, Command)]
    assert all(command.isprintable() for command in commands)
    files = report_files(made, tmp_path / f"page.{kind}", kind)
    page = files[-1][1]
    assert len(files) == (1 + len(made.pictures) if kind == "md" else 1)
    if kind == "pdf":
        assert page.startswith(b"%PDF")
        return
    text = page.decode()
    assert all(label not in text for label in labels if "script" in label or "\\write18" in label)
    if kind == "html":
        assert read_page(text).elements <= OWN
        assert "</script>" not in text
