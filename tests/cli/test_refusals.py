"""What each command refuses: in one line, before any work, and without a change of any file."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from pbdist.cli import main
from tests.studies import files_of, write_study

STORE = "data/tiny.zarr"
CLIPPED = f"{STORE} --mechanism clipped --compositions"
DPSGD = "--family SubsampledGaussian --scale 1.1 --rate 0.01"
GOAL = "--compositions 64 --exp-epsilon 2 --delta 1e-5"
MNIST = "--examples 60000 --batch 256"
#: Commands, and words of what they print.
REFUSED = [
    # plan, run, query and verify
    (
        f"query {CLIPPED} 8 --epsilon 0",
        "error: --compositions: expected at most 7, the largest stored number, got 8 for clipped(",
    ),
    (f"query {CLIPPED} 4 --epsilon -0.1", "--epsilon: expected finite numbers of at least 0"),
    (f"query {CLIPPED} 4 --exp-epsilon 0.5", "--exp-epsilon: expected a number from 1 to 1e+300, got '0.5'"),
    (f"query {CLIPPED} 4 --delta 1", "delta: expected numbers above 0 and below 1, got 1.0"),
    (f"query {CLIPPED} 4", "--compositions: needs two of --compositions,"),
    (
        f"query {CLIPPED} 4 --epsilon 0 --scale 7",
        "no order is known between noise settings of its kind: add it to the study's mechanisms",
    ),
    (f"query {CLIPPED} 4 --epsilon 0 --factor 2", "factor: expected auto, got 2"),
    (f"query {STORE} --mechanism Laplace --compositions 4 --epsilon 0", "got 3: also give scale (2, 3, 5)"),
    ("query absent --mechanism x --compositions 4 --epsilon 0", "expected a pbdist store"),
    ("query study.yaml --mechanism x --compositions 4 --epsilon 0", "expected a pbdist store"),
    (f"query {CLIPPED} 4 --epsilon inf", "epsilon: expected finite numbers of at least 0 and at most 1e+150, got inf"),
    (f"query {CLIPPED} 4 --epsilon 0 --scale inf", "scale: expected a finite number, got inf"),
    (f"query {CLIPPED} 1{400 * '0'} --epsilon 0", "compositions: expected whole numbers of at least 1"),
    (f"query {STORE} --mechanism 'a\nb' --compositions 4 --epsilon 0", "mechanism: expected one of"),
    ("verify absent", "expected a pbdist store"),
    (f"verify {STORE} --sample -1", "sample: expected a whole number from 0 to 2^40, got -1"),
    ("plan absent.yaml", "absent.yaml: study: expected a readable study file"),
    ("plan .", "expected a readable study file"),
    ("plan 'no\x1b[31m\nsuch.yaml'", "no [31m such.yaml: study: expected a readable study file"),
    ("run study.yaml --cluster absent.yaml", "absent.yaml: cluster: expected a readable cluster file"),
    ("run absent.yaml", "expected a readable study file"),
    (
        "run study.yaml --store study.yaml --serial",
        "study.yaml: expected a pbdist store, got a study file: pbdist run .*study.yaml computes one, at another path",
    ),
    (
        "run study.yaml --store /proc/q.zarr --serial",
        "--store: expected a path to create a store at, got /proc/q.zarr: [Errno 2] No such file or directory",
    ),
    ("run study.yaml --store study.yaml/x --serial", "expected a path to create a store at"),
    ("run study.yaml --workers 4096", "--workers: expected at most .*, 8 for each core of this machine, got 4096"),
    ("run study.yaml --workers 0", "--workers: expected a whole number from 1 to 4096, got '0'"),
    (f"run study.yaml --serial --log {STORE}/x", "--log: expected a path outside the store"),
    ("run study.yaml --serial --log absent/x", "--log: expected the path of a file to append to"),
    (
        "run study.yaml --store x.zarr --scheduler absent",
        "--scheduler: absent is no address, such as tcp://host:8786, and no",
    ),
    ("run study.yaml --cluster study.yaml", "study.yaml:1: format: expected one of class, options, scale, adapt"),
    # epsilon and delta
    ("epsilon --compositions 3 --delta 1e-5", "error: --family: expected a value, got none"),
    (f"epsilon {DPSGD} --delta 1e-5", "error: Missing option '--compositions'."),
    (f"epsilon {DPSGD} --compositions 5", "error: Missing option '--delta'."),
    (f"delta {DPSGD} --compositions 5", "error: --epsilon or --exp-epsilon: expected a value, got none"),
    (f"epsilon {DPSGD} --compositions 0 --delta 1e-5", "error: --compositions: expected whole numbers"),
    (f"epsilon {DPSGD} --compositions 1 --delta 1", "error: --delta: expected numbers from 0 to below 1"),
    (f"delta {DPSGD} --compositions 1 --epsilon -1", "error: --epsilon: expected finite numbers of at least 0"),
    (
        f"delta {DPSGD} --compositions 1 --exp-epsilon 0.5",
        "--exp-epsilon: expected a number from 1 to 1e+300, got '0.5'",
    ),
    (f"delta {DPSGD} --compositions 1 --epsilon 1 --tolerance 7", "error: --tolerance: expected a number"),
    ("delta --family Gaussian --compositions 1 --epsilon 1", "error: --scale: expected a value"),
    (
        f"delta {DPSGD} --mean 3 --compositions 1 --epsilon 1",
        "error: --mean: is no parameter of SubsampledGaussian, which has scale, rate, sensitivity",
    ),
    (
        "delta --family Product --pairs Laplace --compositions 1 --epsilon 1",
        "error: --pairs: expected a list of mechanisms, got 'Laplace'",
    ),
    (
        f"delta {DPSGD} --compositions 1 --epsilon 1 --json --format csv",
        "error: --json: cannot be combined with --format",
    ),
    # size
    (
        "size --family Gaussian --compositions 4 --delta 1e-5",
        "--epsilon: expected a value, got none: a target needs --compositions",
    ),
    (
        "size --family Gaussian --epsilon 1 --delta 1e-5",
        "--compositions: expected a value, got none: a target needs --compositions",
    ),
    ("size --family Gaussian", "--compositions: expected a value"),
    (f"size --family Gaussian {GOAL} --delta 2", "delta: expected numbers above 0 and below 1"),
    (f"size --family Gaussian {GOAL} --rate 0.1", "--rate: is no parameter of Gaussian, which has scale,"),
    (f"size --family SubsampledGaussian {GOAL}", "rate: expected a value for SubsampledGaussian"),
    (f"size --family NoisyCount --shift 2 {GOAL}", "noise: expected the class Laplace, Gaussian, DiscreteLaplace"),
    (f"size --family Laplace {GOAL} --store nowhere.zarr", "nowhere.zarr"),
    (f"size --system nobody {GOAL}", "system: expected one of"),
    (f"size --family Gaussian {GOAL} --json --format latex", "--json: cannot be combined with --format"),
    (f"size --family Gaussian {GOAL} 2", "delta: expected numbers above 0 and below 1, got 2.0"),
    (f"size --family Gaussian {GOAL} --systems mine.yaml", "--family: cannot be combined with --systems"),
    (f"size --system vuvuzela-dialing --mean 3 {GOAL}", "--mean: cannot be combined with --system"),
    # dpsgd
    ("dpsgd", "error: Missing option '--examples'."),
    ("dpsgd --examples 10", "error: --batch or --sample-rate or --phase: expected a value, got none"),
    (f"dpsgd {MNIST} --epochs 1", "error: --noise-multiplier or --epsilon or --phase: expected a value, got none"),
    (f"dpsgd {MNIST} --epsilon 1", "error: --epochs or --steps or --phase: expected a value, got none"),
    (f"dpsgd {MNIST} --epsilon 1 --epochs 0", "error: --epochs: expected finite numbers above 0, got 0.0"),
    (f"dpsgd {MNIST} --epsilon -1 --epochs 1", "error: --epsilon: expected finite numbers of at least 0"),
    (f"dpsgd {MNIST} --epsilon 1 --epochs 1 --direction each", "error: --direction: cannot be combined with --epsilon"),
    (f"dpsgd {MNIST} --epsilon 1 --epochs 1 --tolerance 2", "error: --tolerance: expected a number"),
    (f"dpsgd {MNIST} --noise-multiplier 0 --epochs 1", "error: --noise-multiplier: expected a number above 0, got 0.0"),
    ("dpsgd --examples 9 --batch 10 --epsilon 1 --steps 1", "error: --batch: expected a whole number"),
    # report
    ("report -o page.html", "STORE or --system: expected a value, got none"),
    ("report s.zarr --system dp-sgd -o page.html", "--system: cannot be combined with STORE"),
    ("report s.zarr --tolerance 0.1 -o page.html", "--tolerance: cannot be combined with STORE"),
    ("report --system dp-sgd --verify 3 -o page.html", "--verify: cannot be combined with --system"),
    ("report s.zarr --verify -1 -o page.html", "--verify: expected a whole number from 0 to 10000, got '-1'"),
    (
        "report s.zarr --delta 0.1 -o page.html",
        "--compositions: expected a value, got none: a target needs --compositions",
    ),
    (
        "report s.zarr --delta 0.1 --compositions 3 -o page.html",
        "--epsilon: expected a value, got none: a target needs",
    ),
    ("report --system unknown -o page.html", "system: expected one of vuvuzela-dialing,"),
    (f"report {STORE} -o {STORE}/page.html", "--output: expected a path outside the store"),
    (f"report {STORE} -o none/page.html", "expected a file in a folder that exists"),
    (f"report {STORE} -o page.txt", "--output: expected a file that ends in one of .html, .md, .pdf"),
    # plot
    (f"plot epsilon-delta {STORE} -o a.jpg", "--output: expected a file that ends in .svg, .png or .pdf"),
    (f"plot epsilon-delta {STORE} --epsilon 1 -o plot.svg", "--epsilon: needs --delta"),
    (f"plot epsilon-delta {STORE} --over noise -o plot.svg", "--over: does not apply to epsilon-delta"),
    (
        f"plot compare {STORE} --exp-epsilon 0.5 -o plot.svg",
        "--exp-epsilon: expected a number from 1 to 1e+300, got '0.5'",
    ),
    (f"plot compare {STORE} --compositions 1 4 -o plot.svg", "--compositions: expected one number for compare"),
    (f"plot compare {STORE} --delta 0.1 -o plot.svg", "--delta: does not apply to compare"),
    (f"plot noise {STORE} {STORE} -o plot.svg", "STORE: expected one store for noise, got 2"),
    (f"plot noise {STORE} -o plot.svg", "mechanism: expected settings with one kind of amount"),
    (
        f"plot epsilon-delta {STORE} --mechanism laplace -o plot.svg",
        "mechanism: expected one of Laplace, RandomizedResponse",
    ),
    ("plot epsilon-delta nowhere.zarr -o plot.svg", "expected a pbdist store, got nothing there"),
    (f"plot compare {STORE} -o {STORE}/one.png", "--output: expected a path outside the store"),
    (f"plot compare {STORE} -o none/one.png", "--output: expected a file in a folder that exists"),
    # explore
    (f"explore {STORE} --port=70000", "--port: expected a whole number from 0 to 65535, got '70000'"),
    (f"explore {STORE} --mechanism=Laplace", "--mechanism: applies to --export only"),
    (f"explore {STORE} --export=page.txt", "--export: expected a file name that ends in .html, got page.txt"),
    (f"explore {STORE} --export=none/page.html", "none/page.html"),
    (f"explore {STORE} --export {STORE}/page.html", "--export: expected a path outside the store"),
    ("explore none.zarr", "expected a pbdist store, got nothing there"),
    # export
    ("export none.zarr out.csv", "expected a pbdist store, got nothing there"),
    (f"export {STORE} out.xlsx", "OUT: expected a name that ends in"),
    (f"export {STORE} {STORE}/x.csv", "OUT: expected a path outside the store"),
    (f"export {STORE} s3://bucket/out.zarr", "OUT: expected a path on this machine"),
    # studies
    ("plan quikstart", "error: FILE: expected the name of a study that comes with pbdist, got 'quikstart'"),
    ("plan quikstart", "got 'quikstart': did you mean quickstart?"),
    ("run quikstart", "did you mean quickstart?"),
    ("size --system vuvuzela_dailing", "got 'vuvuzela_dailing': did you mean vuvuzela-dialing?"),
    # new
    ("new study", "FILE: expected a name of letters, digits, '.', '_' and '-' that ends in .yaml, got 'study'"),
    ("new 'my study.yaml'", "FILE: expected a name of letters"),
    ("new .yaml", "FILE: expected a name of letters"),
    ("new absent/s.yaml", "No such file or directory"),
    (
        f"plot epsilon-delta {STORE} --format jpg -o a.svg",
        "No such option '--format'.",
    ),
    ("plot epsilon-delta s.zarr --over axis -o a.svg", "--over: expected one of epsilon, noise, got 'axis'"),
    (
        "plot epsilon-delt s.zarr -o a.svg",
        "KIND: expected a known name, got 'epsilon-delt': did you mean epsilon-delta?",
    ),
    ("plot epsilon-delta -o a.svg", "Missing argument 'STORE..'"),
    ("size", "--family or --system: expected a value, got none"),
    (
        "delta --family Gaussian --family Laplace --scale 4 --compositions 1 --epsilon 1",
        "--family: expected one value, got several",
    ),
    (
        "delta --family Gaussian --family=Laplace --scale 4 --compositions 1 --epsilon 1",
        "--family: expected one value, got several",
    ),
    (
        "delta --family Gaussian --scale 4 --compositions 1 --epsilon 0 --exp-epsilon 2",
        "--exp-epsilon: cannot be combined with",
    ),
    (
        f"size --family NoisyCount --noise Poison --shift 1 {GOAL}",
        "noise: expected the class Laplace, Gaussian, Discrete",
    ),
    (f"size --family Laplace --adjacency add {GOAL}", "--adjacency: expected one of add-or-remove,"),
    ("report s.zarr", "Missing option '-o' / '--output'."),
    (f"verify {STORE} --sample ten", "--sample: expected a whole number, got 'ten'"),
    ("run study.yaml --patience soon", "--patience: expected a number from 1 to 1000000, got 'soon'"),
    ("run study.yaml --serial --workers 2", "--serial: cannot be combined with --workers"),
    ("new s.yaml --family Gaussian --like quickstart", "--like: cannot be combined with --family"),
    ("--import nothing_there studies", "--import: expected a module that can be imported, got nothing_there"),
    ("new s.yaml --family Gausian", "got 'Gausian': did you mean Gaussian?"),
    ("new s.yaml --like quikstart", "got 'quikstart': did you mean quickstart?"),
    # What follows is named as it was typed, with what to do.
    (
        f"plot noise {STORE} --mechanism Laplace clipped -o plot.svg",
        "error: --mechanism: expected one value, got several: choose one (the label of the one mechanism that is drawn",
    ),
    (
        f"plot compare {STORE} --over noise --mechanism Laplace clipped -o plot.svg",
        "error: --mechanism: expected one value, got several: choose one",
    ),
    (
        f"plot noise {STORE} --mechanism=Laplace --mechanism=clipped -o plot.svg",
        "--mechanism: expected one value, got several: choose one",
    ),
    (f"plot compare {STORE} --over noise -o plot.svg", "RandomizedResponse (probability of a lie)"),
    (
        f"delta {DPSGD} --compositions 1 --epsilon 1 --tolerance 0.1 0.2",
        "--tolerance: expected one value, got several: choose one",
    ),
    (f"query {STORE} --reading foo", "error: --reading: needs two of --compositions, --epsilon"),
    (f"query {STORE} --epsilon 1", "error: --epsilon: needs two of"),
    (
        f"query {CLIPPED} 4 --epsilon 1 --delta 0.1 --refine",
        "error: --refine: applies to questions of two numbers, not",
    ),
    (f"query {CLIPPED} 4 --epsilon 1 --delta 0.1 --scale 2", "error: --scale: cannot be .* all settings: leave it out"),
    (
        f"query {STORE} --compositions 900 --epsilon 9999 --delta 0.1",
        "error: --compositions: expected at most 7, the la",
    ),
    ("query study.yaml --compositions 4 --delta 0.1", "got a study file: pbdist run .*study.yaml computes one"),
    (f"query {STORE} --rate 0.1 --compositions 4 --epsilon 0", "error: --rate: expected no value"),
    (f"query {STORE} --noise Laplce --compositions 4 --epsilon 0", "error: --noise: expected .*did you mean Laplace?"),
    (f"size --family all Gaussian {GOAL}", "error: --family: expected all by itself, or some of"),
    (f"size --family Laplace Gaussian --sensitivity=-1 {GOAL}", "error: --sensitivity: expected a number above 0"),
    (f"size --family all --rate 2 {GOAL}", "error: --rate: expected a probability in [0, 1], got 2"),
    (f"size --family NoisyCount(Laplace) --noise Gaussian --shift 2 {GOAL}", "leave out noise, which it names"),
    (f"size --family Gaussian Gaussian {GOAL}", "error: --family: expected each family once, got Gaussian again"),
    (f"size --family Poisson --rate 1 {GOAL}", "error: --rate: is no parameter of Poisson, which has mean, sens"),
    (f"size --family Poisson --mean 1 {GOAL}", "error: --mean: cannot be given: it is the noise that is sized"),
    (
        "delta --family Laplac --scale 1 --compositions 1 --epsilon 1",
        "error: --family: expected a known name, got 'Laplac': did",
    ),
    (
        "delta --family Histogram --p 0.5,0.5 --q 0.4 0.6 --compositions 1 --epsilon 1",
        "error: --p: expected a value, got '0.5,0.5': separate values by spaces",
    ),
    (
        f"delta {DPSGD} --compositions 1 --epsilon 1,2",
        "--epsilon: expected a number, got '1,2': separate values by spaces",
    ),
    (f"delta {DPSGD} --compositions 1 --epsilon nan", "error: --epsilon: expected a number, got 'nan'"),
    (f"explore {STORE} --port abc", "error: --port: expected a whole number from 0 to 65535, got 'abc'"),
    (
        "report absent.zarr -o page.html",
        "absent.zarr: expected a pbdist store, got nothing there: correct the path, or",
    ),
    # Found with wrong inputs of all kinds.
    ("delta --family Laplace --scale '' --compositions 1 --epsilon 1", "error: --scale: expected a value, got ''"),
    (f"delta {DPSGD} --compositions 1 --exp-epsilon inf", "error: --exp-epsilon: expected a number from 1 to 1e+300"),
    (f"size --family all --rate 0.1 --shift 3 {GOAL}", "error: --family: expected one to which all parameters apply"),
    (f"size --family NoisyCount {GOAL}", "or its name, got none"),
    ("size --system counting-laplace --noise Laplace", "error: --noise: applies to noisy counts, of which counting-"),
    ("report --system dp-sgd -o page.html --tolerance 3", "error: --tolerance: expected a number from 1e-6 to 0.5"),
    (
        f"plot noise {STORE} -o a.svg --mechanism Laplace --compositions 5000 --epsilon 9999",
        "error: STORE: expected bounds to draw",
    ),
    (
        f"plot epsilon-delta {STORE} --mechanism Laplace -o /proc/a.svg",
        "/proc/a.svg: cannot be written: No such file or",
    ),
    ("run study.yaml --store '' --serial", "error: --store: expected a path or a URL"),
    ("run ''", "error: FILE: expected the name of a study"),
    ("new a.yaml --family ''", "error: --family: expected one of"),
    ("run study.yaml --cluster cluster.yaml", "cluster.yaml:1: class: there is no module no.such here: pip install no"),
    (f"dpsgd {MNIST} --epochs 1e300 --noise-multiplier 1", "error: --epochs: expected at most 2^62 steps in all"),
    (f"verify {STORE} --sample nan", "error: --sample: expected a whole number, got 'nan'"),
]


@pytest.fixture(scope="module")
def folder(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its finished store."""
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copytree(tiny_store, folder / STORE)
    write_study(folder)
    write_study(folder, "class: no.such.Class\n", "cluster.yaml")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("command", "words"), REFUSED)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    folder: Path, command: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = files_of(folder)
    assert main(shlex.split(command)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    # The field, what was expected, and what came or what to do.
    assert re.match(
        r"pbdist: error: [^ ].*?: .*(expected|cannot|is no|none of the|No such|order is known|applies|needs|"
        r"missing|no module|does not apply|more than once)"
        r"|pbdist: error: (Missing \w+ '|No such option ').*\(see pbdist \w+ --help\)",
        err,
    )
    assert re.search(re.escape(words).replace(r"\.\*", ".*"), err)
    assert files_of(folder) == before
