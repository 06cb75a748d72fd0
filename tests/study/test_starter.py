"""Study files to begin with can be planned and run as they are, and overwrite nothing."""

from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.errors import InvalidInputError
from pbdist.study import load_study, plan_study
from pbdist.study.entries import RELEASE_PLAN, study_kinds
from pbdist.study.starter import starter_kinds, write_copy, write_starter


def test_there_is_one_for_each_kind() -> None:
    assert set(starter_kinds()) == {*study_kinds(), RELEASE_PLAN}


@pytest.mark.slow
@pytest.mark.parametrize("kind", starter_kinds())
def test_each_is_planned(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "my-study.yaml"
    write_starter(path, kind)
    study = load_study(path)
    assert study.name == "my-study"
    text = path.read_text(encoding="utf-8")
    assert f"kind: {kind}" in text
    # It states no neighbours, and shows how.
    assert study.adjacency == ()
    assert "# adjacency: " in text
    assert (study.target_compositions, study.target_epsilon) == ((), ())
    assert plan_study(study).seconds < 60.0


def test_its_commands_do_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-study.yaml"]) == 0
    assert capsys.readouterr().out == "my-study.yaml is written. Its projected time: pbdist plan my-study.yaml\n"
    lines = (tmp_path / "my-study.yaml").read_text(encoding="utf-8").splitlines()
    told = [line.partition("    # ")[0].split()[2:] for line in lines if line.startswith("#   pbdist ")]
    assert [words[0] for words in told] == ["plan", "run", "query"]
    for words in told:
        assert main([*words, "--serial"] if words[0] == "run" else words) == 0
    assert "meets" in capsys.readouterr().out


@pytest.mark.parametrize("kind", starter_kinds())
@pytest.mark.slow
def test_the_questions_in_it_have_answers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_starter(Path("s.yaml"), kind)
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8")
    assert text.count("[1, 10, 100, 1000]") == text.count("{linspace: [0, 4, 41]}") == 1
    quick = text.replace("[1, 10, 100, 1000]", "100").replace("{linspace: [0, 4, 41]}", "1")
    (tmp_path / "s.yaml").write_text(quick, encoding="utf-8")
    lines = text.splitlines()
    (question,) = [line.split()[2:] for line in lines if line.startswith("#   pbdist query")]
    assert main(["run", "s.yaml", "--serial"]) == 0
    assert main(question) == 0
    assert "δ upper" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["1", "1e3", "true", "Null", "a.b_c-d", "7up"])
def test_names_that_yaml_could_read_otherwise(name: str, tmp_path: Path) -> None:
    write_starter(tmp_path / f"{name}.yaml")
    write_copy(tmp_path / f"{name}.yml", "quickstart")
    assert load_study(tmp_path / f"{name}.yaml").name == load_study(tmp_path / f"{name}.yml").name == name


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("mine")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "absent")
    for given in (path, tmp_path / "link.yaml"):
        for options in ([], ["--like", "quickstart"], ["--family", "Laplace"]):
            assert main(["new", str(given), *options]) == 2
            assert "FILE: expected a path where nothing is yet" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.yaml", "s.yaml"]


def test_a_folder_with_a_strange_name(tmp_path: Path) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    write_starter(folder / "s.yaml")
    assert load_study(folder / "s.yaml").name == "s"
    with pytest.raises(InvalidInputError, match="expected one of Laplace, Gaussian"):
        write_starter(folder / "t.yaml", "Noise")


def test_other_names_of_kinds(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="got 'normal': did you mean Gaussian"):
        write_starter(tmp_path / "s.yaml", "normal")
    assert not (tmp_path / "s.yaml").exists()
