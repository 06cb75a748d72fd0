"""Release plans in study files: what an entry means, and what is refused where."""

import re
from pathlib import Path

import pytest

from pbdist.errors import StudyFileError
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.declared import Analysis, Blocks, Memberships, Overlapping, Partition, on_each_block
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import ApproximateDP, Gaussian, Laplace, Pair, Poisson, Product, WorstOf
from pbdist.study import StudySpec, entries, load_study
from pbdist.study.columns import cell_columns
from pbdist.study.plan import cell_cost, similar_cells
from tests.studies import write_study

HEAD = "format: 1\nname: s\nmechanisms:\n"
TAIL = "compositions: [1, 2]\nepsilon: [0, 0.5]\n"
COUNT = "{name: count, pair: {kind: Laplace, scale: 10}, reads_each: all, attained: every}"
#: Lines 4 to 9 of a study.
PLAN = """\
  - kind: ReleasePlan
    label: release
    granularity: unbounded
    blocks: {overlapping: [a, b, c, d], at_most: 3}
    analyses:
      - {name: count, pair: {kind: Laplace, scale: 10}, reads_each: all, attained: every}
"""


def study(folder: Path, entries: str, tail: str = TAIL) -> StudySpec:
    return load_study(write_study(folder, HEAD + entries + tail))


def pairs(folder: Path, entries: str) -> list[Pair]:
    return [cell.pair for cell in study(folder, entries).cells]


def plan(granularity: str, analyses: str, blocks: str = "") -> str:
    more = f"    blocks: {blocks}\n" if blocks else ""
    return f"  - kind: ReleasePlan\n    granularity: {granularity}\n{more}    analyses:\n      - {analyses}\n"


def as_one(expected: ReleasePlan) -> Pair:
    pair = expected.pair()
    return WorstOf(pair) if isinstance(pair, Product) else pair


def test_a_plan_is_what_the_constructor_makes(tmp_path: Path) -> None:
    [found] = pairs(tmp_path, PLAN)
    runs = on_each_block(Analysis("count", Laplace(10.0), attained="every"), "abcd")
    expected = ReleasePlan(Unbounded(), runs, Overlapping(("a", "b", "c", "d"), 3))
    assert found == WorstOf(Product(*[Laplace(10.0)] * 3))
    assert found == as_one(expected)


@pytest.mark.parametrize(
    ("text", "granularity"),
    [
        ("unbounded", Unbounded()),
        ("bounded", Bounded()),
        ("{user-level: {records: 3}}", UserLevel(3)),
        ("free-lunch", FreeLunch()),
    ],
)
@pytest.mark.parametrize(
    ("declared", "blocks"),
    [
        ("{partition: [a, b, c]}", Partition(("a", "b", "c"))),
        ("{partition: [a, b], exhaustive: false}", Partition(("a", "b"), exhaustive=False)),
        ("{overlapping: 3, at_most: 2, exhaustive: true}", Overlapping(("block 1", "block 2", "block 3"), 2, True)),
        ("{memberships: [[a], [a, b], []]}", Memberships((("a",), ("a", "b"), ()))),
    ],
)
def test_granularities_and_blocks(
    tmp_path: Path, text: str, granularity: Granularity, declared: str, blocks: Blocks
) -> None:
    declares, private = ("", Unbounded()) if text != "free-lunch" else (", declared: free-lunch", FreeLunch())
    [found] = pairs(
        tmp_path, plan(text, f"{{name: n, pair: {{kind: Gaussian, scale: 4}}, reads_each: all{declares}}}", declared)
    )
    runs = on_each_block(Analysis("n", Gaussian(4.0), declared=private), blocks.blocks)
    assert found == as_one(ReleasePlan(granularity, runs, blocks))


def test_graphs(tmp_path: Path) -> None:
    edge, node = pairs(
        tmp_path,
        plan("edge-level", "{name: n, pair: {kind: Laplace, scale: 4}, declared: edge-level}")
        + plan(
            "{node-level: {degree: 5, presence: public}}",
            "{name: n, pair: {kind: Laplace, scale: 4}, declared: edge-level}",
        ),
    )
    edges = Analysis("n", Laplace(4.0), declared=EdgeLevel())
    assert edge == as_one(ReleasePlan(EdgeLevel(), [edges]))
    assert node == as_one(ReleasePlan(NodeLevel(5, "public"), [edges]))
    assert {(factor.scale, factor.sensitivity) for factor in node.factors} == {(4.0, 5.0)}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_every_key_of_an_analysis(tmp_path: Path) -> None:
    [found] = pairs(
        tmp_path,
        """\
  - kind: ReleasePlan
    granularity: bounded
    blocks: {partition: [a, b, c]}
    analyses:
      - {name: two, pair: {kind: Poisson, mean: 50}, reads: [b, a], repeats: 2, attained: some}
      - {name: sum, pair: {kind: Laplace, scale: 4}, replaced: {kind: Laplace, scale: 4, sensitivity: 1.5}, reads: [a]}
      - {name: count, pair: {kind: Laplace, scale: 3}, replaced: unchanged, reads_each: [a, c], attained: every}
      - {name: other, pair: {kind: ApproximateDP, epsilon: 1, delta: 0}, declared: bounded, domain: common}
""",
    )
    analyses = [
        Analysis("two", Poisson(50.0), ("a", "b"), repeats=2, attained="some"),
        Analysis("sum", Laplace(4.0), ("a",), replaced=Laplace(4.0, 1.5)),
        *on_each_block(Analysis("count", Laplace(3.0), replaced="unchanged", attained="every"), "ac"),
        Analysis("other", ApproximateDP(1.0, 0.0), declared=Bounded(), domain="common"),
    ]
    assert found == as_one(ReleasePlan(Bounded(), analyses, Partition(("a", "b", "c"))))


def test_given_relations_have_profiles(tmp_path: Path) -> None:
    [found] = pairs(
        tmp_path,
        """\
  - kind: ReleasePlan
    granularity: {given: within a district}
    analyses:
      - {name: one, declared: {given: within a district}, pair: {kind: Gaussian, scale: 2}}
      - {name: two, pair: {kind: Laplace, scale: 3}}
    profiles:
      - {touches: [{analysis: one, removed: 1}], attained: true}
      - {touches: [{analysis: two, removed: 1, added: 1}]}
""",
    )
    assert found == WorstOf(Gaussian(2.0), Laplace(3.0, 2.0), attained=[True, False])


def test_plans_are_swept(tmp_path: Path) -> None:
    found = pairs(
        tmp_path,
        """\
  - kind: ReleasePlan
    analyses:
      - {name: x, pair: {kind: Laplace, scale: [2, 3]}, attained: every}
      - name: y
        attained: every
        settings:
          - pair: {kind: Gaussian, scale: {linspace: [5, 7, 3]}}
          - {pair: {kind: Laplace, scale: 9}, repeats: 2}
    settings:
      - {granularity: unbounded}
      - {granularity: {user-level: {records: 2}}}
""",
    )
    assert len(found) == len(set(found)) == 2 * 2 * 4
    assert found[0] == WorstOf(Product(Gaussian(5.0), Laplace(2.0)))
    assert found[3] == WorstOf(Product(Laplace(2.0), Laplace(9.0), Laplace(9.0)))
    assert found[8].factors[0].sensitivity == 2.0  # type: ignore[attr-defined]


def test_cells_have_short_descriptions_and_the_scale_that_all_share(tmp_path: Path) -> None:
    text = PLAN.replace("scale: 10}", "scale: [10, 20]}")
    counts = PLAN.replace("Laplace, scale: 10}", "Poisson, mean: 9}").replace("label: release", "label: poisson")
    spec = study(tmp_path, text + counts)
    told = [cell.describe() for cell in spec.cells]
    assert told == [
        "release (3 x Laplace(scale=10, sensitivity=1))",
        "release (3 x Laplace(scale=20, sensitivity=1))",
        "poisson (3 x Poisson(mean=9, sensitivity=1))",
    ]
    columns = cell_columns(spec.cells)
    assert columns["scale"][:2] == [10.0, 20.0]
    assert columns["mean"][2] == 9.0
    assert [*columns["kind"]] == ["WorstOf"] * 3


def test_descriptions_of_many_products_stay_short(tmp_path: Path) -> None:
    noise = "{kind: ApproximateDP, epsilon: 0.%d, delta: 1e-%d}"
    runs = "".join(f"      - {{name: n{i}, reads: [block {i}], pair: {noise % (i, 10 - i)}}}\n" for i in range(1, 9))
    entry = f"  - kind: ReleasePlan\n    granularity: bounded\n    blocks: {{partition: 8}}\n    analyses:\n{runs}"
    [cell] = study(tmp_path, entry).cells
    assert re.fullmatch(r"ReleasePlan \(worst of \d+: .* or .* or \d+ more\)", cell.describe())
    assert len(cell.describe()) < 500


def test_costs_of_plans(tmp_path: Path) -> None:
    spec = study(
        tmp_path, PLAN + PLAN.replace("granularity: unbounded", "granularity: bounded").replace("release", "r")
    )
    costs = [cell_cost(spec, cell) for cell in spec.cells]
    assert all(cost.seconds > 0.0 and cost.peak_bytes > 0 for cost in costs)
    assert len(similar_cells(spec.cells)[0]) == 2


def refused(folder: Path, entries: str, line: int, problem: str, tail: str = TAIL) -> None:
    with pytest.raises(StudyFileError) as error:
        study(folder, entries, tail)
    told = str(error.value).removeprefix(str(folder / "study.yaml"))
    assert told.startswith(f":{line}: "), told
    assert problem in told


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("unbounded", "unlimited", 6, "granularity: expected one of unbounded, bounded, edge-level"),
        ("unbounded", "user-level", 6, "granularity: expected one of"),
        ("unbounded", "{user-level: {people: 3}}", 6, "user-level.people: expected one of records, got an unknown key"),
        ("unbounded", "{user-level: {records: 0}}", 6, "user-level.records: expected"),
        ("unbounded", "{user-level: 3}", 6, "user-level: expected a mapping with records, got 3"),
        ("unbounded", "{given: [x]}", 6, "given: expected the name of a relation"),
        ("unbounded", "{given: x}", 4, "profiles: give every way in which neighbours"),
        ("unbounded", "{node-level: {presence: public}}", 6, "granularity: expected NodeLevel with a maximal degree"),
        ("granularity: unbounded\n    ", "", 4, "granularity: expected a value, got nothing"),
        ("granularity", "graininess", 6, "graininess: expected one of kind, granularity, analyses, blocks, profiles"),
        ("at_most: 3", "at_most: 0", 7, "blocks.at_most: expected a whole number of at least 1"),
        ("at_most: 3", "at_most: x", 7, "blocks.at_most: expected a whole number"),
        (", at_most: 3", "", 7, "blocks.at_most: expected a value, got nothing"),
        ("[a, b, c, d]", "[a, a]", 7, "blocks.overlapping: expected each name once"),
        ("[a, b, c, d]", "0", 7, "blocks.overlapping: expected a list of names, or a number"),
        ("{overlapping: [a, b, c, d], at_most: 3}", "[a, b]", 7, "blocks: expected a partition, overlapping blocks"),
        ("{overlapping: [a, b, c, d], at_most: 3}", "{partition: []}", 7, "blocks.partition: give at least one"),
        ("{overlapping: [a, b, c, d], at_most: 3}", "{memberships: [[a], [a]]}", 7, "memberships: expected each set"),
        ("reads_each: all", "reads: [a, x]", 9, "analyses[0].reads: expected blocks among"),
        ("reads_each: all", "reads_each: [a, x]", 9, "analyses[0].reads_each[1]: expected a block among"),
        ("reads_each: all", "reads_each: some", 9, "analyses[0].reads_each: expected all, or a list of blocks"),
        ("reads_each: all", "reads_each: all, reads: [a]", 9, "reads_each: expected none beside reads"),
        ("attained: every", "attained: all", 9, "analyses[0].attained: expected never, some or every"),
        ("attained: every", "repeats: 0", 9, "analyses[0].repeats: expected a whole number of at least 1"),
        ("attained: every", "domain: wide", 9, "analyses[0].domain: expected own or common"),
        ("attained: every", "declared: narrow", 9, "analyses[0].declared: expected one of unbounded"),
        ("attained: every", "declared: edge-level", 9, "analyses[0].declared: expected a pair for"),
        ("attained: every", "replaced: gone", 9, "analyses[0].replaced: expected a pair or unchanged, got 'gone'"),
        ("attained: every", "replaced: {kind: Laplace}", 9, "analyses[0].replaced.scale: expected a value"),
        ("scale: 10", "scale: -1", 9, "analyses[0].pair.scale: expected"),
        ("kind: Laplace", "kind: ReleasePlan", 9, "analyses[0].pair.kind: expected a kind among Laplace"),
        ("name: count, ", "", 9, "analyses[0].name: expected a value, got nothing"),
        ("name: count", "name: ''", 9, "analyses[0].name: expected a name"),
        ("attained: every}", "attained: every}\n      - 3", 10, "analyses[1]: expected a mapping with a name"),
        ("attained: every}", f"attained: every}}\n      - {COUNT}", 8, "analyses: expected each name once"),
        ("analyses:\n      - {name: count, pair: {kind: Laplace, scale: 10}, reads_each: all, attained: every}",
         "analyses: []", 8, "analyses: give at least one analysis"),
        ("analyses:", "profiles: [{touches: [{analysis: count of a, removed: 1}]}]\n    analyses:", 8,
         "profiles: leave them out: the changes of Unbounded()"),
        ("analyses:", "profiles: [{touches: [{analysis: count of a}]}]\n    analyses:", 8,
         "profiles[0].touches[0]: give the records removed or added"),
        ("analyses:", "profiles: [{touches: [{analyses: count of a}]}]\n    analyses:", 8,
         "profiles[0].touches[0].analyses: expected one of analysis, removed, added, got an unknown key"),
        ("kind: ReleasePlan", "kind: Plan", 4, "expected a kind, got 'Plan': did you mean ReleasePlan?"),
    ],
)  # fmt: skip
def test_wrong_plans_are_refused_by_line(tmp_path: Path, old: str, new: str, line: int, problem: str) -> None:
    assert PLAN.count(old) == 1
    refused(tmp_path, PLAN.replace(old, new), line, problem)


def test_a_pair_that_says_nothing_about_moved_records_is_refused(tmp_path: Path) -> None:
    """Example II.9: bounded counts of two blocks tell together in which one a record is."""
    entry = plan(
        "bounded", "{name: n, pair: {kind: Laplace, scale: 4}, declared: bounded, reads_each: all}", "{partition: 2}"
    )
    refused(tmp_path, entry, 8, "analyses[0].declared: expected a pair that protects how many records it reads")


@pytest.mark.parametrize(
    ("tail", "line", "problem"),
    [
        ("keep_states: true\n", 12, "keep_states: expected false with a ReleasePlan, as mechanisms[0] is, got true"),
        ("method: buckets\n", 12, "method: expected tight with a ReleasePlan, as mechanisms[0] is, got buckets"),
    ],
)
def test_what_needs_one_pair_is_refused(tmp_path: Path, tail: str, line: int, problem: str) -> None:
    refused(tmp_path, PLAN, line, problem, TAIL + tail)


def test_too_many_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_MADE", 5)
    swept = PLAN.replace("scale: 10", "scale: [1, 2, 3]")
    swept += "      - {name: other, pair: {kind: Laplace, scale: [1, 2, 3]}}\n"
    refused(tmp_path, swept, 4, "expected at most 5 noise settings, got 9")
