"""A study file states for which neighbours its mechanisms are; what contradicts them is refused with its line."""

from pathlib import Path

import pytest

from pbdist.errors import StudyFileError
from pbdist.mechanisms import Adjacency, Laplace, Product, Reversed, SubsampledGaussian
from pbdist.study import StudySpec, load_study
from pbdist.study.columns import Block, unlike
from pbdist.study.entries import accepted_grid
from pbdist.study.load import Addition, load_asked
from tests.mechanisms.replaced import Replaced
from tests.studies import write_study

HEAD = "format: 1\nname: s\n"
TAIL = "compositions: [1, 2]\nepsilon: [0, 0.5]\n"
PLAIN = "  - {kind: Laplace, scale: [2, 3]}\n"
SAMPLED = "  - {kind: SubsampledGaussian, scale: 1, rate: 0.1}\n"
PLAN = """\
  - label: plan
    kind: ReleasePlan
    granularity: %s
    blocks: {partition: 3}
    analyses: [{name: count, pair: {kind: Laplace, scale: 20}, reads_each: all, replaced: unchanged}]
"""


def study(folder: Path, mechanisms: str, top: str = "") -> StudySpec:
    return load_study(write_study(folder, f"{HEAD}{top}mechanisms:\n{mechanisms}{TAIL}"))


def refused(folder: Path, mechanisms: str, top: str = "") -> list[str]:
    with pytest.raises(StudyFileError) as told:
        study(folder, mechanisms, top)
    return [f"{one.line}: {one.field}: {one.problem}" for one in told.value.problems]


def with_own(entry: str, relation: str) -> str:
    return entry.replace("}\n", f", adjacency: {relation}}}\n")


def test_what_a_pair_says_itself_is_no_part_of_the_study(tmp_path: Path) -> None:
    bare = study(tmp_path, SAMPLED)
    assert study(tmp_path, SAMPLED, "adjacency: add-or-remove\n").digest == bare.digest
    assert study(tmp_path, with_own(SAMPLED, "add-or-remove")).digest == bare.digest
    assert study(tmp_path, SAMPLED, "adjacency: as-stated\n").digest == bare.digest
    assert bare.neighbours_of(bare.cells[0]) is Adjacency.ADD_OR_REMOVE


def test_a_statement_is_a_part_of_the_digest_wherever_it_stands(tmp_path: Path) -> None:
    bare = study(tmp_path, PLAIN + SAMPLED)
    top = study(tmp_path, PLAIN + SAMPLED, "adjacency: add-or-remove\n")
    own = study(tmp_path, with_own(PLAIN, "add-or-remove") + SAMPLED)
    other = study(tmp_path, with_own(PLAIN, "replace-one") + SAMPLED)
    assert top.adjacency == own.adjacency == (("Laplace", Adjacency.ADD_OR_REMOVE),)
    assert top.digest == own.digest
    assert len({bare.digest, top.digest, other.digest}) == 3
    assert [other.neighbours_of(cell).value for cell in other.cells] == ["replace-one", "replace-one", "add-or-remove"]
    assert top.cells_sha256 == bare.cells_sha256
    again = StudySpec.from_head(other.head(), other.cells, name="s")
    assert (again.adjacency, again.digest) == (other.adjacency, other.digest)
    assert other.summary()["neighbours"] == "Laplace: one record replaced"
    assert "neighbours" not in bare.summary()


def test_an_entry_has_the_last_word(tmp_path: Path) -> None:
    found = study(tmp_path, with_own(PLAIN, "as-stated") + with_own(SAMPLED, "add-or-remove"), "adjacency: zero-out\n")
    assert found.adjacency == ()
    found = study(tmp_path, PLAIN + with_own(SAMPLED, "add-or-remove"), "adjacency: zero-out\n")
    assert found.adjacency == (("Laplace", Adjacency.ZERO_OUT),)


def test_contradictions_are_refused_with_the_reason_and_the_place(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, PLAIN + SAMPLED, "adjacency: replace-one\n")
    assert told == (
        "3: adjacency: expected add-or-remove, as SubsampledGaussian is the worst case of one record added or removed,"
        " got replace-one: its bounds say nothing of one record replaced (mechanisms[1] may have an adjacency of its"
        " own)"
    )
    (told,) = refused(tmp_path, PLAIN + with_own(SAMPLED, "zero-out"))
    assert told.startswith("5: mechanisms[1].adjacency: expected add-or-remove, as SubsampledGaussian is")
    product = (
        "  - {kind: Product, pairs: [{kind: Laplace, scale: 2}, {kind: SubsampledGaussian, scale: 1, rate: 0.1}]}\n"
    )
    (told,) = refused(
        tmp_path, with_own(product, "replace-one").replace("scale: 2, adjacency: replace-one", "scale: 2")
    )
    assert "expected add-or-remove, as Product is the worst case" in told


@pytest.mark.parametrize("wrong", ["both", "3", "[replace-one]", "true"])
def test_what_is_no_relation_is_refused(tmp_path: Path, wrong: str) -> None:
    expected = "expected one of add-or-remove, add-or-remove-group, replace-one, zero-out, as-stated, got"
    (told,) = refused(tmp_path, PLAIN, f"adjacency: {wrong}\n")
    assert told.startswith(f"3: adjacency: {expected}")
    (told,) = refused(tmp_path, with_own(PLAIN, wrong))
    assert told.startswith(f"4: mechanisms[0].adjacency: {expected}")


def test_what_people_call_it_is_told(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, PLAIN, "neighbours: replace-one\n")
    assert "got an unknown key: did you mean adjacency?" in told
    (told,) = refused(tmp_path, PLAIN, "adjacency: bounded\n")
    assert told.endswith("did you mean replace-one?")


def test_one_label_is_for_one_relation(tmp_path: Path) -> None:
    labelled = [entry.replace("kind:", "label: x, kind:", 1) for entry in (PLAIN, "  - {kind: Gaussian, scale: 2}\n")]
    both = with_own(labelled[0], "replace-one") + with_own(labelled[1], "zero-out")
    (told,) = refused(tmp_path, both)
    assert told.startswith("5: mechanisms[1].adjacency: expected the same neighbours of all mechanisms with the label")
    # Half of them would be counted as stated by mistake.
    (told,) = refused(tmp_path, with_own(labelled[0], "replace-one") + labelled[1])
    assert told.endswith("got as-stated and replace-one: give one another label")
    (told,) = refused(tmp_path, labelled[1] + with_own(labelled[0], "replace-one"))
    assert told.endswith("got as-stated and replace-one: give one another label")
    sampled = SAMPLED.replace("kind:", "label: x, kind:")
    (told,) = refused(tmp_path, sampled + with_own(labelled[0], "replace-one"))
    assert told.endswith("got add-or-remove and replace-one: give one another label")
    assert study(tmp_path, sampled + labelled[0]).adjacency == ()
    twice = study(tmp_path, with_own(labelled[0], "zero-out") + with_own(labelled[1], "zero-out"))
    assert twice.adjacency == (("x", Adjacency.ZERO_OUT),)
    agreed = study(tmp_path, sampled + with_own(labelled[0], "add-or-remove"))
    assert agreed.adjacency == (("x", Adjacency.ADD_OR_REMOVE),)


@pytest.mark.parametrize(
    ("granularity", "right", "wrong"),
    [("unbounded", "add-or-remove", "replace-one"), ("bounded", "replace-one", "add-or-remove")],
)
def test_release_plans_are_for_the_neighbours_of_their_granularity(
    tmp_path: Path, granularity: str, right: str, wrong: str
) -> None:
    plan = PLAN % granularity
    assert study(tmp_path, plan).adjacency == ()
    assert study(tmp_path, plan, f"adjacency: {right}\n").adjacency == (("plan", Adjacency(right)),)
    (told,) = refused(tmp_path, plan, f"adjacency: {wrong}\n")
    assert f"expected {right}, as plan of granularity {granularity} is" in told


def test_an_extension_states_what_is_new(tmp_path: Path) -> None:
    head = "format: 1\nname: s\nextend: true\nadjacency: zero-out\n"
    stored = study(tmp_path, SAMPLED)
    added = load_asked(write_study(tmp_path, f"{head}mechanisms:\n{PLAIN}"))
    assert isinstance(added, Addition)
    assert added.onto([stored]).adjacency == (("Laplace", Adjacency.ZERO_OUT),)
    with pytest.raises(StudyFileError, match="4: adjacency: expected mechanisms beside it, got none"):
        load_asked(write_study(tmp_path, f"{head}compositions: [3]\n"))


def test_a_grid_of_pairs_says_what_each_of_them_says() -> None:
    sampled, plain = SubsampledGaussian(1.0, 0.1), Laplace(3.0)
    choices = ((plain, Laplace(4.0), sampled), (Reversed(sampled), plain))
    axes = {f"pairs[{number}]": values for number, values in enumerate(choices)}
    grid = Block.grid(Product(plain, plain), axes)
    assert grid.adjacencies == {pair.adjacency for pair in grid.pairs()}
    assert len(unlike(choices[0])) == 2
    assert unlike((1.0, 2.0)) == [0]
    assert Block.grid(sampled, {"scale": (1.0, 2.0)}).adjacencies == {Adjacency.ADD_OR_REMOVE}
    assert Block.listed([sampled, plain]).adjacencies == {Adjacency.ADD_OR_REMOVE, Adjacency.AS_STATED}
    assert Block.listed([]).adjacencies == set()


def test_products_of_grids_are_refused_where_some_combination_is_for_different_neighbours() -> None:
    """Each value is accepted beside the first ones of the others: only together are two of them refused."""
    plain, other = Laplace(3.0), Laplace(4.0)
    grids = {"pairs[0]": [plain, SubsampledGaussian(1.0, 0.1)], "pairs[1]": [plain, other, Replaced(2.0)]}
    with pytest.raises(ValueError, match=r"^Product.pairs: expected pairs for the same neighbours"):
        accepted_grid("Product", grids, lambda values: Product(*values))
    found = accepted_grid("Product", {**grids, "pairs[1]": [plain, other]}, lambda values: Product(*values))
    assert (
        found.adjacencies
        == {pair.adjacency for pair in found.pairs()}
        == set(Adjacency)
        - {
            Adjacency.ADD_OR_REMOVE_GROUP,
            Adjacency.REPLACE_ONE,
            Adjacency.ZERO_OUT,
        }
    )
