import hashlib
import json
import math
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist.errors import StudyFileError
from pbdist.mechanisms import (
    Adjacency,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Poisson,
    Product,
    RandomizedResponse,
    Reversed,
    Staircase,
)
from pbdist.study import StudySpec, load_study
from pbdist.study.document import Document
from pbdist.study.fields import numbers, same_float
from tests.strategies import examples
from tests.studies import TINY, write_study

HEAD = "format: 1\nname: s\n"
M = "  - {kind: Laplace, scale: 2}\n"
TAIL = "compositions: [1, 2]\nepsilon: [0, 0.5]\n"


def study(tmp_path: Path, mechanisms: str, tail: str = TAIL) -> StudySpec:
    return load_study(write_study(tmp_path, f"{HEAD}mechanisms:\n{mechanisms}{tail}"))


def pairs(tmp_path: Path, mechanisms: str) -> list[object]:
    return [cell.pair for cell in study(tmp_path, mechanisms).cells]


def test_every_kind_of_entry(tmp_path: Path) -> None:
    found = pairs(
        tmp_path,
        """\
  - {kind: Laplace, scale: [2, 3], truncate: [null, [-9, 9]]}
  - {kind: Gaussian, scale: {geomspace: [1, 4, 3]}, sensitivity: 2, truncate: [-5, 5]}
  - {kind: RandomizedResponse, p: {linspace: [0.6, 0.8, 3]}}
  - {kind: SubsampledGaussian, scale: 4, rate: 1e-2}
  - {kind: ApproximateDP, epsilon: 0.5, delta: [1e-5, 1e-6]}
  - {kind: Histogram, p: [1, 3, 0], q: [2, 1, 1]}
  - {kind: NoisyCount, noise: {kind: Gaussian, scale: [5, 6]}, mean: 50, shift: 2,
     reading: [clamp-and-ceil, shift-inside]}
  - {kind: Product, pairs: [{kind: Laplace, scale: [7, 8]}, {kind: RandomizedResponse, p: 0.6}]}
  - {kind: Poisson, mean: [25e3, 5e4]}
  - {kind: DiscreteLaplace, scale: 20, sensitivity: [1, 2]}
  - {kind: DiscreteGaussian, scale: 20.5}
  - {kind: Product, pairs: [{kind: Poisson, mean: 9}, {kind: Reversed, pair: {kind: Poisson, mean: [8, 9]}}]}
""",
    )
    assert found[:4] == [
        Laplace(2.0),
        Laplace(2.0, truncate=(-9.0, 9.0)),
        Laplace(3.0),
        Laplace(3.0, truncate=(-9.0, 9.0)),
    ]
    assert found[4:7] == [Gaussian(s, 2.0, (-5.0, 5.0)) for s in (1.0, 2.0, 4.0)]
    # 15 digits: what a person writes as 0.7 is found as 0.7.
    assert found[7:10] == [RandomizedResponse(p) for p in (0.6, 0.7, 0.8)]
    assert found[11:13] == [ApproximateDP(0.5, 1e-5), ApproximateDP(0.5, 1e-6)]
    assert found[13] == Histogram([1, 3, 0], [2, 1, 1])
    assert found[14] == NoisyCount(Gaussian(5.0), 50, 2)
    assert found[15] == NoisyCount(Gaussian(5.0), 50, 2, "shift-inside")
    assert len(found[14:18]) == 4
    assert found[18:20] == [Product(Laplace(s), RandomizedResponse(0.6)) for s in (7.0, 8.0)]
    assert found[20:22] == [Poisson(25_000.0), Poisson(50_000.0)]
    assert found[22:25] == [DiscreteLaplace(20.0), DiscreteLaplace(20.0, 2), DiscreteGaussian(20.5)]
    assert found[25:] == [Product(Poisson(9.0), Reversed(Poisson(mean))) for mean in (8.0, 9.0)]


def test_settings_go_together_and_grids_multiply(tmp_path: Path) -> None:
    found = pairs(
        tmp_path,
        """\
  - kind: NoisyCount
    shift: 2
    reading: [clamp-and-ceil, redraw-and-floor]
    settings:
      - {mean: 80, noise: {kind: Laplace, scale: 5}}
      - {mean: 200, noise: {kind: Laplace, scale: 11}}
""",
    )
    assert found == [
        NoisyCount(Laplace(scale), mean, 2, reading)
        for mean, scale in ((80, 5.0), (200, 11.0))
        for reading in ("clamp-and-ceil", "redraw-and-floor")
    ]


def test_grids_are_sorted_and_factors_multiply(tmp_path: Path) -> None:
    spec = study(
        tmp_path,
        "  - {kind: Laplace, scale: 2, label: L}\n",
        "factors: [auto, 1.5]\ncompositions: {powers_of_two: [0, 3]}\nexp_epsilon: [2, 1]\n"
        "method: buckets\nbuckets: 10\n",
    )
    assert [(cell.label, cell.factor) for cell in spec.cells] == [("L", None), ("L", 1.5)]
    assert spec.compositions == (1, 2, 4, 8)
    assert spec.epsilon == (0.0, math.log(2.0))
    assert spec.buckets == 10


def test_methods_and_their_precision(tmp_path: Path) -> None:
    def precision(tail: str) -> tuple[str, float | None, int | None]:
        spec = study(tmp_path, M, f"{TAIL}{tail}")
        read = StudySpec.from_head(spec.head(), spec.cells, name=spec.name)
        assert read == spec
        assert read.digest == spec.digest
        return spec.method, spec.tolerance, spec.buckets

    assert precision("") == ("tight", 1e-3, None)
    assert precision("method: tight\ntolerance: 0.1\n") == ("tight", 0.1, None)
    assert precision("buckets: 1000\n") == ("tight", 1e-3, 1000)
    assert precision("method: buckets\n") == ("buckets", None, 100_000)
    assert precision("method: buckets\nbuckets: 10\nfactors: 1.1\n") == ("buckets", None, 10)
    sought = study(tmp_path, M, f"{TAIL}factors: [auto, 1.01]\n")
    assert [sought.requires_tolerance_of(cell) for cell in sought.cells] == [True, False]
    assert not study(tmp_path, M, f"{TAIL}buckets: 1000\n").requires_tolerance_of(sought.cells[0])
    assert not study(tmp_path, M, f"{TAIL}method: buckets\n").requires_tolerance_of(sought.cells[0])


def test_the_digest_is_of_canonical_text(tmp_path: Path) -> None:
    spec = study(tmp_path, M, f"{TAIL}method: buckets\nbuckets: 400\n")
    # Of one line for each cell: its canonical form as JSON with sorted keys.
    cell = {"label": "Laplace", "pair": Laplace(2.0).canonical(), "factor": None}
    text = json.dumps(cell, sort_keys=True, separators=(",", ":")) + "\n"
    by_buckets = {
        "format": 6,
        "method": "buckets",
        "tolerance": None,
        "buckets": 400,
        "compositions": [1, 2],
        "epsilon": ["0x0.0p+0", "0x1.0000000000000p-1"],
        "floor": "0x1.16c262777579cp-133",
        "direction": "each",
        "adjacency": {},
        "keep_states": False,
        "cells": 1,
        "cells_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    assert spec.head() == by_buckets
    tight = {**by_buckets, "method": "tight", "tolerance": "0x1.0624dd2f1a9fcp-10", "buckets": None}
    assert study(tmp_path, M, f"{TAIL}direction: each\n").head() == tight
    assert study(tmp_path, M, TAIL).head() == {**tight, "direction": "both"}


def test_the_digest_is_of_what_is_computed(tmp_path: Path) -> None:
    one = load_study(write_study(tmp_path))
    same = load_study(
        write_study(
            tmp_path,
            "# words\n" + TINY.replace("name: tiny", "name: other\ndescription: more words").split("targets")[0],
        )
    )
    assert one.digest == same.digest
    digests = {one.digest}
    for old, new in (
        ("scale: [2, 3, 5]", "scale: [2, 3, 5.000000000000001]"),
        ("exp_epsilon: [1, 1.5, 2]", "exp_epsilon: [1, 1.5, 2, 3]"),
        ("buckets: 400", "buckets: 402"),
        ("method: buckets", "method: tight"),
        ("method: buckets\nbuckets: 400", "tolerance: 1e-3"),
        ("method: buckets\nbuckets: 400", "tolerance: 1e-2"),
        ("buckets: 400", "buckets: 400\nkeep_states: true"),
        ("label: clipped", "label: clamped"),
        ("buckets: 400", "buckets: 400\nfactors: [1.25]"),
    ):
        assert old in TINY
        digests.add(load_study(write_study(tmp_path, TINY.replace(old, new))).digest)
    assert len(digests) == 10
    assert StudySpec.from_head(one.head(), one.cells, name="tiny").digest == one.digest


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"{HEAD}mechanisms:\n{M}{TAIL}bucket: 3\n", 7, "bucket: expected one of format, name"),
        (f"{HEAD}mechanisms:\n  - kind: Laplace\n    scale: [1, -3]\n{TAIL}", 5, "scale[1]: expected"),
        (f"{HEAD}mechanisms:\n  - kind: Laplace\n    scale:\n      - 1\n      - 0\n{TAIL}", 7, "scale[1]: expected"),
        (f"{HEAD}mechanisms:\n  - kind: Laplace\n    scal: 1\n{TAIL}", 5, "scal: expected one of kind, scale"),
        (f"{HEAD}mechanisms:\n  - kind: Laplace\n{TAIL}", 4, "scale: expected a value, got nothing"),
        (
            f"{HEAD}mechanisms:\n  - kind: Laplac\n    scale: 1\n{TAIL}",
            4,
            "expected a kind, got 'Laplac': did you mean Laplace? The",
        ),
        (f"{HEAD}mechanisms:\n  - scale: 1\n{TAIL}", 4, "expected a kind among"),
        (f"{HEAD}mechanisms:\n  - Laplace\n{TAIL}", 4, "expected a mapping with a kind"),
        (f"{HEAD}mechanisms: []\n{TAIL}", 3, "mechanisms: expected a list of mechanisms, got []"),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}buckets: 7\n",
            7,
            "buckets: expected an even whole number above 0 and at most 1073741824, got 7",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}buckets: 0\n",
            7,
            "buckets: expected an even whole number above 0 and at most 1073741824, got 0",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}buckets: 2.0\n",
            7,
            "buckets: expected an even whole number above 0 and at most 1073741824, got 2.0",
        ),
        (f"{HEAD}mechanisms:\n{M}{TAIL}factors: [1]\n", 7, "factors[0]: expected auto or a number above 1, got 1"),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}factors: [auto, auto]\n",
            7,
            "factors[1]: expected each value once, got 'auto' again",
        ),
        (f"{HEAD}mechanisms:\n{M}{TAIL}factors: 0.5\n", 7, "factors: expected auto or a number above 1"),
        (f"{HEAD}mechanisms:\n{M}epsilon: 0\ncompositions: [1, 0]\n", 6, "compositions[1]: expected an integer from 1"),
        (f"{HEAD}mechanisms:\n{M}epsilon: 0\ncompositions: 4611686018427387905\n", 6, "expected an integer from 1"),
        (f"{HEAD}mechanisms:\n{M}epsilon: 0\ncompositions: 1.5\n", 6, "expected an integer from 1"),
        (f"{HEAD}mechanisms:\n{M}epsilon: 0\ncompositions: {{powers_of_two: [3, 63]}}\n", 6, "powers_of_two"),
        (
            f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: [0, -0.1]\n",
            6,
            "epsilon[1]: expected a number from 0 to 1e+150, got -0.1",
        ),
        (
            f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: [0, 1e151]\n",
            6,
            "epsilon[1]: expected a number from 0 to 1e+150",
        ),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: .nan\n", 6, "epsilon: expected a finite number, got nan"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: [.inf]\n", 6, "epsilon[0]: expected a finite number"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: [1, 1.0]\n", 6, "epsilon[1]: expected each value once"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nexp_epsilon: 0.5\n", 6, "expected a number of at least 1, got 0.5"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\n", 1, "epsilon: expected exactly one of epsilon and exp_epsilon"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}exp_epsilon: 2\n", 6, "got both"),
        (f"{HEAD}mechanisms:\n{M}{M}{TAIL}", 5, "expected each setting once, got Laplace(scale=2, sensitivity=1) on"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}name: t\n", 7, "name: expected each key once, got it on line 2 too"),
        (f"format: 2\nname: s\nmechanisms:\n{M}{TAIL}", 1, "format: expected 1, got 2"),
        (f"name: s\nmechanisms:\n{M}{TAIL}", 1, "format: expected a value, got nothing"),
        (f"format: 1\nname: a/b\nmechanisms:\n{M}{TAIL}", 2, "name: expected letters"),
        (f"format: 1\nname: 3\nmechanisms:\n{M}{TAIL}", 2, "name: expected letters, digits, '.', '_' and '-', got 3"),
        (f"{HEAD}mechanisms:\n  - {{kind: Histogram, p: [0.5, 0.4], q: [0.5, 0.5]}}\n{TAIL}", 4, "p: expected"),
        (
            f"{HEAD}mechanisms:\n  - {{kind: Histogram, p: [0.5, .nan], q: [0.5, 0.5]}}\n{TAIL}",
            4,
            "p[1]: expected a finite",
        ),
        (f"{HEAD}mechanisms:\n  - {{kind: RandomizedResponse, p: 1.2}}\n{TAIL}", 4, "p: expected"),
        (f"{HEAD}mechanisms:\n  - {{kind: LaplaceSum, scales: 5}}\n{TAIL}", 4, "scales: expected two numbers, got 5"),
        (
            f"{HEAD}mechanisms:\n  - {{kind: LaplaceSum, scales: [1, x]}}\n{TAIL}",
            4,
            "scales[1]: expected a number, got 'x'",
        ),
        (
            f"{HEAD}mechanisms:\n  - {{kind: LaplaceSum, scales: [[1, 2], [3, 0]]}}\n{TAIL}",
            4,
            "scales[1][1]: expected a number above 0, got 0",
        ),
        (f"{HEAD}mechanisms:\n  - {{kind: Poisson, mean: [3, -1]}}\n{TAIL}", 4, "mean[1]: expected"),
        (
            f"{HEAD}mechanisms:\n  - {{kind: DiscreteGaussian, scale: 3, sensitivity: 1.5}}\n{TAIL}",
            4,
            "sensitivity: expected a whole number",
        ),
        (f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: yes}}\n{TAIL}", 4, "scale: expected a number, got 'yes'"),
        (f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: '2'}}\n{TAIL}", 4, "scale: expected a number, got '2'"),
        (f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: true}}\n{TAIL}", 4, "scale: expected a number, got True"),
        (
            f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: {{linspace: [1, 2]}}}}\n{TAIL}",
            4,
            "scale.linspace: expected",
        ),
        (f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: {{geomspace: [0, 2, 3]}}}}\n{TAIL}", 4, "expected first > 0"),
        (f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: 2, truncate: [5, -5]}}\n{TAIL}", 4, "truncate: expected"),
        (
            f"{HEAD}mechanisms:\n  - {{kind: Laplace, scale: 2, truncate: [5]}}\n{TAIL}",
            4,
            "truncate: expected (low, high) or None, got [5]",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: NoisyCount\n    mean: 9\n    shift: 2\n    noise:\n      kind: Laplace\n"
            f"      scale: -1\n{TAIL}",
            9,
            "mechanisms[0].noise.scale: expected",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: NoisyCount\n    shift: 2\n    settings:\n"
            f"      - {{mean: 9, noise: {{kind: Laplace, scale: 1}}}}\n      - {{mean: 9, shift: 3}}\n{TAIL}",
            8,
            "settings[1].shift: expected each parameter once",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: Product\n    pairs:\n      - {{kind: Laplace, scale: 1}}\n"
            f"      - {{kind: Laplace, scale: 0}}\n{TAIL}",
            7,
            "mechanisms[0].pairs[1].scale: expected",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}targets:\n  - {{epsilon: -0.4, delta: 0.1, compositions: 1}}\n",
            8,
            "targets[0].epsilon: expected a number from 0 to 1e+150, got -0.4",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}targets:\n  - {{exp_epsilon: [2], delta: 0.1, compositions: 3}}\n",
            8,
            "targets[0].exp_epsilon: expected a number, got [2]",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}targets:\n  - {{epsilon: 0.5, delta: 0.1, compositions: 1.5}}\n",
            8,
            "targets[0].compositions: expected an integer from 1 to 2^62, got 1.5",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}targets:\n  - {{epsilon: 0.5, delta: 1.5, compositions: 1}}\n",
            8,
            "targets[0].delta: expected a number above 0 and below 1, got 1.5",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: Laplace\n    scale: {{linspace: [1, 2, 5000]}}\n"
            f"    sensitivity: {{linspace: [1, 2, 5000]}}\n{TAIL}",
            4,
            "expected at most 20000000 noise settings, got 25000000",
        ),
        (
            f"{HEAD}mechanisms:\n  - {{kind: Histogram, p: [1.0e+308, 1.0e+308], q: [1, 1]}}\n{TAIL}",
            4,
            "p[0]: expected",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}buckets: 1{400 * '0'}\n",
            7,
            "buckets: expected an even whole number above 0 and at most 1073741824, got inf",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}buckets: 1{30 * '0'}\n",
            7,
            "buckets: expected an even whole number above 0 and at most 1073741824, got ",
        ),
        (f"{HEAD}mechanisms:\n{M}{TAIL}method: fast\n", 7, "method: expected one of tight, buckets, got 'fast'"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}method: [tight]\n", 7, "method: expected one of tight, buckets, got ['tight']"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}tolerance: 0\n", 7, "tolerance: expected a number from 1e-9 to 1, got 0"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}tolerance: 1.5\n", 7, "tolerance: expected a number from 1e-9 to 1, got 1.5"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}tolerance: .nan\n", 7, "tolerance: expected a number from 1e-9 to 1, got nan"),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}tolerance: fine\n",
            7,
            "tolerance: expected a number from 1e-9 to 1, got 'fine'",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}method: buckets\ntolerance: 0.01\n",
            8,
            "tolerance: expected none with method buckets, got 0.01",
        ),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}factors: [auto, 1.01]\nbuckets: 1000\n",
            8,
            "buckets: expected none with a factor and method tight, got 1000",
        ),
        (f"{HEAD}mechanisms: [\n", 4, "expected YAML"),
        (f"{HEAD}mechanisms:\n  - &a {{kind: Laplace, scale: 1}}\n  - *a\n{TAIL}", 4, "expected each setting once"),
        (f"{HEAD}mechanisms: &a\n  - *a\n{TAIL}", 3, "expected at most 50 levels of nesting"),
        ("", 1, "expected a mapping"),
        ("[1, 2]", 1, "expected a mapping"),
        ("a: !!python/object:os.system 1\n", 1, "expected a value without a tag"),
        (f"{HEAD}mechanisms:\n{M}{TAIL}buckets: !!int 1000\n", 7, "without a tag, got 'tag:yaml.org,2002:int'"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: !foo [0.1]\n", 6, "without a tag, got '!foo'"),
        (f"{HEAD}mechanisms:\n{M}compositions: 1\nepsilon: !foo {{linspace: [0, 1, 2]}}\n", 6, "without a tag"),
        (f'{HEAD}mechanisms:\n{M}{TAIL}"a\\nb\\x1b[31m": 1\n', 7, "a b [31m: expected one of format"),
        (
            f"{HEAD}mechanisms:\n{M}{TAIL}targets:\n  - epsilon: 0.5\n    detla: 0.1\n    compositions: 1\n",
            9,
            "targets[0].detla: expected one of delta, compositions, epsilon, exp_epsilon, got an unknown key",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: Histogram\n    q: [0.5, 0.5]\n    p: [1.5, -0.5]\n{TAIL}",
            6,
            "mechanisms[0].p[1]: expected",
        ),
        (
            f"{HEAD}mechanisms:\n  - kind: Histogram\n    q: [0.5, 0.5]\n    p:\n      - 1.5\n      - -0.5\n{TAIL}",
            8,
            "mechanisms[0].p[1]: expected",
        ),
        (
            # Each entry is small enough, and both of them together with the factors are not.
            f"{HEAD}mechanisms:\n{M}  - kind: Laplace\n    scale: {{linspace: [3, 4, 10000]}}\n{TAIL}"
            f"factors: {[1 + (i + 1) / 4096 for i in range(2000)]}\n",
            5,
            "expected at most 20000000 cells in all, got 20002000 up to here",
        ),
        ("format: 1\nname: \x07\n", 2, "expected YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write_study(tmp_path, text)
    with pytest.raises(StudyFileError) as caught:
        load_study(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert words in message
    assert "\n" not in message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match="No such file"):
        load_study(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"format: 1\nname: \xe9\n")
    with pytest.raises(StudyFileError, match=r"latin.yaml:2: study: expected UTF-8 text, got b'\\xe9"):
        load_study(tmp_path / "latin.yaml")


_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["auto", "Laplace"])
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "scale", "linspace", "p", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@pytest.mark.slow(reason="900 study files")
@examples(900)
@given(
    field=st.sampled_from(
        [
            "format",
            "name",
            "mechanisms",
            "method",
            "tolerance",
            "buckets",
            "factors",
            "compositions",
            "epsilon",
            "targets",
            "keep_states",
        ]
    ),
    value=_values,
)
def test_whatever_stands_in_a_field_it_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: object
) -> None:
    import yaml

    content: dict[str, object] = {
        "format": 1,
        "name": "s",
        "mechanisms": [{"kind": "Laplace", "scale": 2}],
        "compositions": [1],
        "epsilon": [0],
        field: value,
    }
    path = tmp_path_factory.mktemp("study") / "s.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        spec = load_study(path)
    except StudyFileError as error:
        message = str(error)
        assert "\n" not in message
    else:
        assert StudySpec.from_head(spec.head(), spec.cells, name=spec.name).digest == spec.digest


@pytest.mark.slow
def test_geometric_grids_are_rounded_from_many_digits() -> None:
    """NumPy's powers differ by processor, and a study's digest depends on each value."""
    values = numbers(Document("s", {"geomspace": [1e-3, 1e6, 91]}, {(): 1}))
    with localcontext(prec=60):
        exact = [Decimal(10) ** (Decimal(k) / 10 - 3) for k in range(91)]
        assert values == tuple(float(f"{value:.15g}") for value in exact)
    assert values[10::10] == (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    # The smallest and the largest float, and a million values.
    assert numbers(Document("s", {"geomspace": [5e-324, 1.7e308, 3]}, {(): 1})) == (
        5e-324,
        2.91547594742265e-08,
        1.7e308,
    )
    assert numbers(Document("s", {"geomspace": [1e-300, 1e300, 1_000_000]}, {(): 1}))[333_333::333_333] == (
        1e-100,
        1e100,
        1e300,
    )


def test_a_combination_of_a_grid_that_a_mechanism_refuses_is_named(tmp_path: Path) -> None:
    entry = "  - kind: FixedBatchGaussian\n    scale: [1, 2]\n    examples: [100, 10]\n"
    entry += "    batch:\n      - 5\n      - 20\n      - 50\n"
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study(tmp_path, f"{HEAD}mechanisms:\n{entry}{TAIL}"))
    assert "study.yaml:7: mechanisms[0].batch: expected a whole number from 1 to 10, got 20" in str(caught.value)


def test_a_null_in_a_grid_is_the_default_of_each_setting(tmp_path: Path) -> None:
    entry = "mechanisms: [{kind: Staircase, epsilon: [0.1, 1.0], split: [null, 0.3]}]"
    file = tmp_path / "study.yaml"
    file.write_text(f"format: 1\nname: splits\ncompositions: 1\nepsilon: 1\n{entry}\n")
    found = [cell.pair for cell in load_study(file).cells]
    assert found == [Staircase(0.1), Staircase(0.1, split=0.3), Staircase(1.0), Staircase(1.0, split=0.3)]


def test_a_null_adjacency_states_nothing(tmp_path: Path) -> None:
    entry = "adjacency: replace-one\nmechanisms: [{kind: Gaussian, scale: 2, adjacency: null}]"
    file = tmp_path / "study.yaml"
    file.write_text(f"format: 1\nname: neighbours\ncompositions: 1\nepsilon: 1\n{entry}\n")
    assert dict(load_study(file).adjacency) == {"Gaussian": Adjacency.REPLACE_ONE}


def test_floats_are_the_same_to_four_ulp() -> None:
    assert same_float(0.75, 0.75 + 4 * math.ulp(0.75))
    assert not same_float(0.75, 0.75 + 5 * math.ulp(0.75))
    assert same_float(math.inf, math.inf)
    assert not same_float(math.inf, 1.0)
