"""``pbdist completion``: what bash completes, in a real bash, and that the other shells' scripts name the same."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.study.starter import shipped_names
from tests.needs import missing


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script for each shell, a study file and a store."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "query.zarr").mkdir()
    (folder / "quiet.yaml").touch()
    return folder


def script(folder: Path, shell: str, capsys: pytest.CaptureFixture[str]) -> Path:
    path = folder / f"pbdist.{shell}"
    if not path.exists():
        assert main(["completion", shell]) == 0
        path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ru"], {"run"}),
        (["run", "qui"], {"quickstart", "quiet.yaml"}),
        (["plan", "vuv"], {"vuvuzela-conversation", "vuvuzela-dialing"}),
        (["plan", "--j"], {"--json"}),
        (["query", "qu"], {"query.zarr"}),
        (["query", "s", "--exp"], {"--exp-epsilon"}),
        (["studies", "--show", "quick"], {"quickstart"}),
        (["new", "x.yaml", "--like", "census"], {"census-2020"}),
        (["new", "x.yaml", "--mechanism", "Disc"], {"DiscreteLaplace", "DiscreteGaussian"}),
        (["size", "--family", "Ga"], {"Gaussian", "GaussianMixture"}),
        (["size", "--system", "vuvuzela-d"], {"vuvuzela-dialing"}),
        (["epsilon", "--family", "Disc"], {"DiscreteLaplace", "DiscreteGaussian"}),
        (["delta", "--fi"], {"--file"}),
        (["delta", "--family", "Histogram", "--file", "quie"], {"quiet.yaml"}),
        (["dpsgd", "--noise"], {"--noise-multiplier"}),
        (["run", "x.yaml", "--cluster", "quie"], {"quiet.yaml"}),
    ],
)
def test_bash(scripts: Path, words: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        missing("bash")
    program = (
        f'source "{script(scripts, "bash", capsys)}"\n'
        'COMP_WORDS=(pbdist "$@"); COMP_CWORD=$#; COMPREPLY=()\n'
        '_shtab_pbdist pbdist "${COMP_WORDS[COMP_CWORD]}" ""\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run([bash, "-c", program, "-", *words], capture_output=True, text=True, check=False, cwd=scripts)
    # Outside a terminal bash says of `compopt` that nothing is being completed.
    assert [line for line in done.stderr.splitlines() if "compopt" not in line] == []
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_the_other_shells(scripts: Path, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(scripts, shell, capsys).read_text(encoding="utf-8")
    wanted = ["completion", "--exp-epsilon" if shell == "zsh" else "exp-epsilon", "DiscreteLaplace", *shipped_names()]
    assert [word for word in wanted if word not in text] == []
    installed = shutil.which(shell)
    if installed is not None and shell != "tcsh":
        assert subprocess.run([installed, "-n", scripts / f"pbdist.{shell}"], check=False).returncode == 0
