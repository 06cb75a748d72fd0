"""``pbdist explore``: what it refuses, what it writes, and how it ends."""

import shutil
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from pbdist.cli import main
from tests.batches import remove_batch
from tests.run.test_signals import INTERRUPTED

WRONG = {
    "--port=70000": "--port: expected an integer from 0 to 65535, got 70000",
    "--mechanism=Laplace": "--mechanism: expected none without --export",
    "--export=page.txt": "--export: expected a file name that ends in .html, got page.txt",
    "--export=none/page.html": "none/page.html",
}


@pytest.mark.parametrize(("option", "told"), WRONG.items())
def test_wrong_options_are_refused(tiny_store, option, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", str(tiny_store), option]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_into_a_store(tiny_store, capsys):
    assert main(["explore", str(tiny_store), "--export", str(tiny_store / "page.html")]) == 2
    assert "--export: expected a file outside the store" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(tiny_store, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["explore", str(tiny_store), "--port", str(taken.getsockname()[1])]) == 2
    assert "Address already in use" in capsys.readouterr().err


def test_what_is_no_store_is_refused(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "none.zarr")]) == 2
    assert "expected a pbdist store, got nothing there" in capsys.readouterr().err


def test_export_writes_one_file(tiny_store, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["explore", str(tiny_store), "--export", str(page), "--mechanism", "Laplace"]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_of_somebody_else_is_not_replaced(tiny_store, tmp_path, capsys):
    mine, link = tmp_path / "mine.html", tmp_path / "link.html"
    mine.write_text("precious")
    link.symlink_to(mine)
    for path in (mine, link):
        assert main(["explore", str(tiny_store), "--export", str(path)]) == 2
        assert "--export: expected a new file, or one that pbdist explore has written" in capsys.readouterr().err
    assert mine.read_text() == "precious"
    assert link.is_symlink()
    assert main(["explore", str(tiny_store), "--export", str(tmp_path / "new.html")]) == 0
    assert main(["explore", str(tiny_store), "--export", str(tmp_path / "new.html")]) == 0


def test_an_export_of_a_store_that_lacks_something_is_not_told_as_whole(tiny_store, tmp_path, capsys):
    store, page = tmp_path / "lacking.zarr", tmp_path / "page.html"
    shutil.copytree(tiny_store, store)
    remove_batch(store, 1)
    assert main(["explore", str(store), "--export", str(page)]) == 1
    assert "not everything is there or sound" in capsys.readouterr().err
    assert "not computed yet" in page.read_text(encoding="utf-8")


def test_an_export_that_fails_leaves_the_earlier_file(tiny_store, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    earlier = '<meta name="generator" content="pbdist explore"> an earlier one'
    page.write_text(earlier, encoding="utf-8")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert main(["explore", str(tiny_store), "--export", str(page)]) == 2
    assert "full" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == earlier
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 -- that is what is tested
def test_it_serves_until_it_is_interrupted(tiny_store: Path, host: str):
    command = [sys.executable, "-m", "pbdist", "explore", str(tiny_store), "--host", host]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        address = process.stdout.readline().strip()
        assert address.startswith(f"http://{host}:")
        connection = HTTPConnection("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]), timeout=60)
        connection.request("GET", "/contents.json")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    warning = "pbdist: warning: --host: 0.0.0.0 may be reached from other machines"
    assert err.startswith(warning) == (host == "0.0.0.0")  # noqa: S104
    assert err.endswith(f"Ctrl-C ends it.\n{INTERRUPTED}\n")
