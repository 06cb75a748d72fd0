"""``pbdist explore``: what it refuses, what it writes, and how it ends."""

import os
import shutil
import signal
import socket
from http.client import HTTPConnection
from pathlib import Path

from pbdist.cli import main
from tests.batches import remove_batch
from tests.processes import start_code
from tests.run.test_signals import until


def test_a_port_that_is_taken_is_told(tiny_store, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", str(tiny_store), "--port", str(port)]) == 2
    problem = f"--port: {port} is in use, or not allowed: choose another, or leave it out"
    assert capsys.readouterr().err == f"pbdist: error: {problem}\n"


def test_export_writes_one_file(tiny_store, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["explore", str(tiny_store), "--export", str(page), "--mechanism", "Laplace"]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_export_of_a_store_that_lacks_something_is_not_told_as_whole(tiny_store, tmp_path, capsys):
    store, page = tmp_path / "lacking.zarr", tmp_path / "page.html"
    shutil.copytree(tiny_store, store)
    remove_batch(store, 1)
    assert main(["explore", str(store), "--export", str(page)]) == 1
    assert "some results are missing or damaged" in capsys.readouterr().err
    assert "not computed yet" in page.read_text(encoding="utf-8")


def test_an_export_that_fails_leaves_the_earlier_file(tiny_store, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    page.write_text("an earlier one", encoding="utf-8")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert main(["explore", str(tiny_store), "--export", str(page)]) == 2
    assert "full" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "an earlier one"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


#: As in a process of its own, stderr is written line by line.
SERVING = "import sys; from pbdist.cli import main; sys.stderr.reconfigure(line_buffering=True); sys.exit(main())"


def test_it_serves_until_it_is_interrupted(tiny_store: Path):
    with start_code(SERVING, "explore", tiny_store) as process:
        until(lambda: "\n" in process.printed() or process.code is not None, "the address")
        address = process.printed().strip()
        assert address.startswith("http://127.0.0.1:")
        connection = HTTPConnection("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]), timeout=60)
        connection.request("GET", "/contents.json")
        assert connection.getresponse().status == 200
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        done = process.wait()
    assert (done.returncode, done.stdout.strip()) == (130, address)
    assert done.stderr == "Ctrl-C ends it.\npbdist: interrupted\n"
