"""All that is wrong with a file is told at once, each with its line, and with what is meant."""

import pickle
import random
import re
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.cli import main
from pbdist.errors import FileProblem, StudyFileError
from pbdist.run.clients import load_cluster
from pbdist.sizing.systems import default_systems_path, load_systems
from pbdist.study import StudySpec, load_study
from tests.strategies import examples
from tests.studies import write_study

ROOT = Path(__file__).parents[2]

#: What is wrong stands in each line's comment: the field, and words of the problem.
WRONG = """\
format: 1
name: my study # name: expected letters
mechanisms:
  - kind: Laplac # mechanisms[0].kind: did you mean Laplace?
    scale: 2
  - kind: Gaussian
    variance: [4, 9] # mechanisms[1].variance: scale is the standard deviation, the square root of the variance
  - kind: Laplace
    sigma: 3 # mechanisms[2].sigma: scale is b of the density e^(-|x| / b) / (2 b): the variance is 2 b²
    sensitivity: -1 # mechanisms[2].sensitivity: above 0
  - kind: SubsampledGaussian
    noise_multiplier: 1 # mechanisms[3].noise_multiplier: the noise multiplier times the clipping norm
    sampling_rate: 0.01 # mechanisms[3].sampling_rate: rate is the probability
  - kind: NoisyCount
    reading: clamp # mechanisms[4].reading: did you mean clamp-and-ceil?
    mean: 20
    shift: x # mechanisms[4].shift: expected a whole number from 1
    noise: {kind: gauss, scale: 2} # mechanisms[4].noise.kind: did you mean Gaussian?
  - kind: RandomizedResponse
    epsilon: 1 # mechanisms[5].epsilon: p is the probability of the truth, e^ε / (1 + e^ε)
  - {knd: Poisson, mean: 3} # mechanisms[6].knd: did you mean the key kind?
  - {kind: Laplace, scale: 1, lable: x} # mechanisms[7].lable: did you mean label?
  - kind: Laplace
    scale: [-1, 2, -3] # mechanisms[8].scale[0]: above 0 # mechanisms[8].scale[2]: above 0
  - kind: Product
    pairs:
      - {kind: Laplace, scale: {lnspace: [1, 2, 3]}} # mechanisms[9].pairs[0].scale: did you mean linspace?
      - {kind: Poisson, mean: 1/2} # mechanisms[9].pairs[1].mean: write out the number
  - kind: ReleasePlan
    granularity: unbound # mechanisms[10].granularity: did you mean unbounded?
    blocks: {partition: [north, south]}
    analyses:
      - {name: a, pair: {kind: Laplace, scale: 0}} # mechanisms[10].analyses[0].pair.scale: above 0
      - name: b
        reads_each: [nort] # mechanisms[10].analyses[1].reads_each[0]: did you mean north?
        pair: {kind: Laplace, scale: 1}
  - kind: Laplace
    settings:
      - {scale: 1, b: 2} # mechanisms[11].settings[0].b: scale is b of the density
      - {scale: [x]} # mechanisms[11].settings[1].scale[0]: expected a number
compositons: {powers_of_two: [0, 3]} # compositons: did you mean compositions?
epsilon: e^0.5 # epsilon: write out the number
method: tigth # method: did you mean tight?
targets:
  - {eps: 1, delta: 0.1, compositions: 1} # targets[0].eps: did you mean epsilon?
  - {epsilon: 1, delta: 2, steps: 3} # targets[1].steps: did you mean compositions? # targets[1].delta: below 1
  - {epsilon: 1, exp_epsilon: 1, delta: 0.1, compositions: 3} # targets[2]: exactly one of
tolerance: 0 # tolerance: expected a number from 1e-9 to 1
description: one
description: two # description: expected each key once, got it on line 49 too
"""


def problems_of(path: Path) -> tuple[FileProblem, ...]:
    with pytest.raises(StudyFileError) as caught:
        load_study(path)
    assert "\n" not in str(caught.value)
    return caught.value.problems


def test_everything_is_told_with_its_line_and_what_is_meant(tmp_path: Path) -> None:
    found = problems_of(write_study(tmp_path, WRONG))
    expected = [
        (number, *(part.strip() for part in told.split(": ", 1)))
        for number, line in enumerate(WRONG.splitlines(), start=1)
        for told in line.split(" # ")[1:]
    ]
    assert [(one.line, one.field) for one in found] == [(line, field) for line, field, _ in expected]
    for problem, (_, _, words) in zip(found, expected, strict=True):
        assert words in problem.problem
        assert str(problem) == f"{tmp_path / 'study.yaml'}:{problem.line}: {problem.field}: {problem.problem}"


def test_all_wrong_values_of_a_list_are_told(tmp_path: Path) -> None:
    text = (
        "format: 1\nname: a\nmechanisms:\n  - {kind: Laplace, scale: [1, .nan, x]}\n"
        "compositions: [1, 0, 2.5, -4]\nepsilon: [0, -0.5, .nan, -7]\n"
    )
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study(tmp_path, text))
    assert [problem.field for problem in caught.value.problems] == [
        *(f"mechanisms[0].scale[{index}]" for index in (1, 2)),
        *(f"compositions[{index}]" for index in (1, 2, 3)),
        *(f"epsilon[{index}]" for index in (1, 2, 3)),
    ]


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        ("{kind: Laplace, scale: [1, x, -1]}", ["scale[1]", "scale[2]"]),
        ("{kind: Laplace, scale: [-1, 2, x, 0, 2]}", ["scale[0]", "scale[2]", "scale[3]", "scale[4]"]),
        (
            "{kind: Gaussian, scale: [x, -2], sensitivity: [1, y, -3]}",
            ["scale[0]", "scale[1]", "sensitivity[1]", "sensitivity[2]"],
        ),
        ("{kind: Gaussian, scale: [x, 2], sensitivity: [1, -3]}", ["scale[0]", "sensitivity[1]"]),
        (
            "{kind: LaplaceSum, scales: [[1, x], [1, -2], [3, 2], [.nan, 1]]}",
            ["scales[0][1]", "scales[1][1]", "scales[3][0]"],
        ),
        ("{kind: Laplace, scale: 2, truncate: [null, [x, 1], [2, 1]]}", ["truncate[1][0]", "truncate[2]"]),
        (
            "{kind: NoisyCount, noise: {kind: Laplace, scale: 2}, mean: [x, 2], shift: [1, -5, y]}",
            ["mean[0]", "shift[1]", "shift[2]"],
        ),
        (
            "{kind: RandomizedResponse, settings: [{p: [2, x]}, {p: [0.7, y, 3]}]}",
            ["settings[0].p[0]", "settings[0].p[1]", "settings[1].p[1]", "settings[1].p[2]"],
        ),
        ("{kind: NoisyCount, noise: {kind: Laplace, scale: 2}}", ["mean", "shift"]),
        # Without one of its values it would be another histogram.
        ("{kind: Histogram, p: [1, x, y, -1], q: [1, 2, z, 3]}", ["p[1]", "p[2]", "q[2]"]),
    ],
)
def test_values_that_the_mechanism_refuses_are_told_beside_those_that_are_no_numbers(
    tmp_path: Path, entry: str, fields: list[str]
) -> None:
    text = f"format: 1\nname: a\nmechanisms:\n  - {entry}\ncompositions: 1\nepsilon: 0\n"
    found = problems_of(write_study(tmp_path, text))
    assert [one.field.removeprefix("mechanisms[0].") for one in found] == fields


def test_the_command_line_prints_at_most_20(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path, WRONG)
    count = len(problems_of(path))
    assert main(["plan", str(path)]) == 2
    out, err = capsys.readouterr()
    first, *lines, last = err.splitlines()
    assert (out, last) == ("", f"and {count - 20} more")
    assert first.startswith(f"pbdist: error: {path}:")
    assert first.endswith(f" (and {count - 1} more errors)")
    assert len(lines) == 19
    numbers = [int(line.removeprefix(f"{path}:").partition(":")[0]) for line in lines]
    assert numbers == sorted(numbers)
    two = write_study(tmp_path, WRONG.partition("    scale: 2\n")[0] + "compositions: 1\nepsilon: 0\n")
    assert main(["run", str(two)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"pbdist: error: {two}:2: ")
    assert second.startswith(f"{two}:4: ")


def test_the_exception_tells_them_too(tmp_path: Path) -> None:
    path = write_study(tmp_path, WRONG)
    with pytest.raises(StudyFileError) as caught:
        load_study(path)
    error = caught.value
    count = len(error.problems)
    assert str(error) == f"{error.problems[0]} (and {count - 1} more errors)"
    told = "".join(traceback.format_exception(error)).splitlines()
    assert told[-1] == f"and {count - 20} more"
    assert told[-2] == str(error.problems[19])
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- just pickled
    assert (str(again), again.problems) == (str(error), error.problems)
    one = StudyFileError.of(error.problems[:1])
    assert str(one) == str(error.problems[0])
    assert not hasattr(one, "__notes__")


def test_wrong_numbers_of_lists_and_of_alternatives_are_told_together(tmp_path: Path) -> None:
    entry = "{kind: GaussianMixture, scale: [1, x, 2], shifts: [0, y, 2], weights: [0.5, 0.5, 0]}"
    text = f"format: 1\nname: s\nmechanisms:\n  - {entry}\ncompositions: 1\nepsilon: 0\n"
    found = [problem.field for problem in problems_of(write_study(tmp_path, text))]
    assert found == ["mechanisms[0].scale[1]", "mechanisms[0].shifts[1]"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{kind: Gaussian, sd: 1}", "scale is the standard deviation, the square root of the variance"),
        ("{kind: Gaussian, noise-multiplier: 1}", "scale is the standard deviation"),
        ("{kind: Laplace, epsilon: 1}", "for the ε of one round it is sensitivity / ε"),
        ("{kind: Laplace, scale: 1, l1_sensitivity: 1}", "sensitivity is by how much one record moves"),
        ("{kind: DiscreteLaplace, b: 1}", "for large b the variance is 2 b²"),
        ("{kind: DiscreteGaussian, sigma: 1}", "scale is the scale σ of the noise, whose probabilities"),
        ("{kind: LaplaceSum, scale: [1, 2]}", "scales are two numbers, each as of a Laplace"),
        ("{kind: Poisson, variance: 1}", "mean is the mean of the noise, which is its variance too"),
        ("{kind: NoisyCount, scale: 1, mean: 3, shift: 1}", "got an unknown key"),
        ("{kind: NoisyCount, std: 1, mean: 3, shift: 1}", "the scale belongs to the noise"),
        ("{kind: SubsampledGaussian, scale: 1, q: 0.1}", "rate is the probability"),
        ("{kind: dpsgd, scale: 1, rate: 0.1}", "did you mean SubsampledGaussian?"),
        ("{kind: 7}", "expected a kind among"),
        ("{type: Laplace, scale: 3}", "did you mean the key kind?"),
    ],
)
def test_words_of_other_fields_are_known(tmp_path: Path, entry: str, words: str) -> None:
    text = f"format: 1\nname: s\nmechanisms:\n  - {entry}\ncompositions: 1\nepsilon: 0\n"
    (problem,) = problems_of(write_study(tmp_path, text))
    assert (problem.line, words in problem.problem) == (4, True), problem


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("r: 1", "did you mean compositions?"),
        ("steps: [1, 2]", "did you mean compositions?"),
        ("rounds: 1", "did you mean compositions?"),
        ("compositons: 1", "did you mean compositions?"),
        ("fromat: 1", "did you mean format?"),
        ("compositions: 2^10", "write out the number"),
        (
            "compositions: [{linspace: [1, 3, 3]}, 9]",
            "got {'linspace': [1, 3, 3]}: write out each number",
        ),
        ("compositions: {logspace: [1, 2, 3]}", "did you mean geomspace?"),
        ("delta: 1e-6", "a δ belongs to a target"),
        ("eps: 1", "did you mean epsilon?"),
        ("e^epsilon: 2", "did you mean exp_epsilon?"),
    ],
)
def test_words_for_the_grids_are_known(tmp_path: Path, line: str, words: str) -> None:
    lines = {"format": "format: 1", "name": "name: s", "mechanisms": "mechanisms: [{kind: Laplace, scale: 2}]"}
    grids = {"compositions": "compositions: 1", "epsilon": "epsilon: 0"}
    replaced = "epsilon" if "eps" in line else "format" if "fromat" in line else "compositions"
    kept = [text for key, text in {**lines, **grids}.items() if key != replaced or line.startswith("delta")]
    (problem,) = problems_of(write_study(tmp_path, "\n".join([*kept, line])))
    assert (problem.line, words in problem.problem) == (len(kept) + 1, True), problem


def test_other_files_are_told_whole_too(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_cluster(write_study(tmp_path, "class: distributed.LocalCluster\nscal: 2\n"))
    assert [one.problem.rpartition(": ")[2] for one in caught.value.problems] == ["did you mean scale?"]
    systems = default_systems_path().read_text(encoding="utf-8")
    wrong = systems.replace("kind: counts", "kind: count", 1).replace("name: dp-sgd", "nam: dp-sgd", 1)
    with pytest.raises(StudyFileError) as caught:
        load_systems(write_study(tmp_path, wrong))
    told = [one.problem.rpartition(": ")[2] for one in caught.value.problems]
    assert told == ["did you mean counts?", "did you mean name?"]


def test_wrong_values_of_a_large_file_are_told_quickly(tmp_path: Path) -> None:
    entry = "  - {kind: Laplace, scale: {geomspace: [1, 2, 1000]}, sensitivity: {linspace: [1, 2, 1000]}}\n"
    text = f"format: 1\nname: s\nmechanisms:\n{entry}compositions: 1\nepsilon: 0\nbucket: 3\n"
    (problem,) = problems_of(write_study(tmp_path, text))
    assert problem.field == "bucket"
    negative = text.replace("[1, 2, 1000]}, sens", "[1, 2, 1000]}, truncate: [3, -3], sens").replace("bucket: 3\n", "")
    (problem,) = problems_of(write_study(tmp_path, negative))
    assert problem.field == "mechanisms[0].truncate"


_JUNK = (
    "x",
    "-1",
    "e^2",
    "[]",
    "{}",
    "null",
    "[1, [2]]",
    "{a: 1}",
    "1e400",
    "true",
    "''",
    ".nan",
    "*a",
    "!!int 3",
    "@",
    "[",
)


def mutated(text: str, draws: random.Random) -> str:
    """A text with a slip: in a letter, a word, a value or a line."""
    lines = text.splitlines()
    number = draws.choice([index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")])
    line = lines[number]
    kind = draws.randrange(8)
    if kind == 0:
        place = draws.randrange(len(line))
        lines[number] = line[:place] + line[place + 1 :]
    elif kind == 1:
        place = draws.randrange(len(line))
        lines[number] = line[:place] + draws.choice("abz:-{}[],# \t'\"%&\x07é") + line[place:]
    elif kind == 2:
        lines.insert(draws.randrange(len(lines)), line)
    elif kind == 3:
        del lines[number]
    elif kind == 4:
        lines[number] = " " * draws.randrange(4) + line
    elif kind == 5:
        lines[number] = re.sub(r": .*", f": {draws.choice(_JUNK)}", line, count=1)
    elif kind == 6:
        words = re.findall(r"[A-Za-z_]\w+", line) or ["x"]
        word = draws.choice(words)
        lines[number] = line.replace(word, word[:-1] + draws.choice("aeiou_"), 1)
    else:
        numbers = re.findall(r"\d[\d.e-]*", line) or ["x"]
        lines[number] = line.replace(draws.choice(numbers), draws.choice(_JUNK), 1)
    return "\n".join(lines) + "\n"


@examples(300)
@given(
    name=st.sampled_from(
        ["quickstart", "vuvuzela-dialing", "hospitals", "optimal-mechanisms", "census-2020", "bucket-convergence-1e3"]
    ),
    slips=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_slips_in_shipped_studies_are_studies_or_errors_with_lines(
    tmp_path_factory: pytest.TempPathFactory, name: str, slips: int, seed: int
) -> None:
    draws = random.Random(seed)  # noqa: S311 -- no secret
    text = (ROOT / "pipelines" / f"{name}.yaml").read_text(encoding="utf-8")
    for _ in range(slips):
        text = mutated(text, draws)
    path = write_study(tmp_path_factory.mktemp("slip"), text)
    try:
        found = load_study(path)
    except StudyFileError as error:
        check_problems(error, path, text)
    else:
        assert isinstance(found, StudySpec)
        assert found.cells


def check_problems(error: StudyFileError, path: Path, text: str) -> None:
    lines = [problem.line for problem in error.problems]
    assert lines
    assert lines == sorted(lines)
    assert 1 <= lines[0] <= lines[-1] <= text.count("\n") + 1
    for problem in error.problems:
        assert problem.source == str(path)
        assert re.match(r"expected .+", problem.problem), problem
        assert re.fullmatch(r".*/study\.yaml:\d+: [^:]+.*: .+", str(problem)), problem


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["".join(f"k{i}: 1\n" for i in range(30_000)), ""])
def test_of_very_many_problems_the_first_are_told(tmp_path: Path, wrong: str) -> None:
    mechanisms = "mechanisms:\n" + "  - {kind: Gausian, scale: 1}\n" * 5_000
    path = write_study(tmp_path, f"format: 1\nname: x\n{wrong}{mechanisms}compositions: [1]\nepsilon: [1]\n")
    with pytest.raises(StudyFileError) as caught:
        load_study(path)
    assert 900 < len(caught.value.problems) < 3_000
    assert all(problem.line > 2 for problem in caught.value.problems)
