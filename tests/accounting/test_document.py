"""Histories as JSON: what is written is read, and anything else is refused by the field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import Accountant, Gaussian, Histogram, InvalidInputError, NoisyCount, SubsampledGaussian
from pbdist.mechanisms import Product, Reversed
from tests import strategies

STEP = {"noise_multiplier": 1.1, "sample_rate": 0.01}
PAIR = {"mechanism": "SubsampledGaussian", "scale": 1.0, "rate": 0.1, "sensitivity": 1.0}


def history() -> Accountant:
    run = Accountant().step(**STEP, steps=100).step(noise_multiplier=0.9, sample_rate=1 / 3)
    count = NoisyCount(noise=Gaussian(30.0), mean=100.0, shift=2)
    return run.add(Product(count, Reversed(Histogram((10**20, 1), (1, 3)))), 7)


def test_a_document_is_the_history() -> None:
    run = history()
    document = json.loads(json.dumps(run.to_document()))
    assert Accountant.from_document(document) == run
    assert document["adjacency"] == "add-or-remove"
    assert Accountant.from_document(Accountant().to_document()) == Accountant()


def test_a_document_of_this_version_stays_readable() -> None:
    """Format 1, as it was written first."""
    document = {
        "pbdist": "accountant",
        "format": 1,
        "adjacency": "add-or-remove",
        "phases": [
            {
                "pair": {"mechanism": "SubsampledGaussian", "scale": 1.1, "rate": 0.01, "sensitivity": 1.0},
                "count": 500,
            },
            {"pair": {"mechanism": "Gaussian", "scale": 20.0, "sensitivity": 1.0, "truncate": None}, "count": 1},
        ],
    }
    run = Accountant().step(**STEP, steps=500).add(Gaussian(20.0))
    assert Accountant.from_document(document) == run
    assert run.to_document() == document


def changed(**fields: Any) -> dict[str, Any]:
    document = Accountant().add(SubsampledGaussian(1.0, 0.1), 5).to_document()
    return {name: value for name, value in {**document, **fields}.items() if value is not ...}


def with_phase(**fields: Any) -> dict[str, Any]:
    phase = {"pair": PAIR, "count": 5, **fields}
    return changed(phases=[{name: value for name, value in phase.items() if value is not ...}])


HOSTILE = [
    ([], "document: expected a mapping of pbdist, format, adjacency, phases, got []"),
    (None, "document: expected a mapping"),
    (
        changed(phase=[]),
        "document: expected the keys pbdist, format, adjacency, phases, got 'phase': did you mean phases?",
    ),
    (changed(pbdist="store"), "pbdist: expected accountant, got 'store'"),
    (changed(pbdist=...), "pbdist: expected a value, got none"),
    (changed(format=2), "format: expected 1, which this version of pbdist reads, got 2"),
    (changed(format=True), "format: expected 1"),
    (changed(format=1.0), "format: expected 1"),
    (changed(format=...), "format: expected a value, got none"),
    (changed(phases={}), "phases: expected a list, got {}"),
    (changed(phases="x"), "phases: expected a list, got 'x'"),
    (changed(phases=[3]), "phases[0]: expected a mapping of pair, count, got 3"),
    (
        changed(adjacency="replace-one"),
        "adjacency: expected add-or-remove, as the phases state, got 'replace-one'",
    ),
    (changed(adjacency=None), "adjacency: expected add-or-remove"),
    (changed(phases=[]), "adjacency: expected as-stated, as the phases state, got 'add-or-remove'"),
    (with_phase(count=0), "phases[0].count: expected a whole number from 1 to 2^62, got 0"),
    (with_phase(count=-1), "phases[0].count: expected"),
    (with_phase(count=True), "phases[0].count: expected"),
    (with_phase(count=1.0), "phases[0].count: expected"),
    (with_phase(count="5"), "phases[0].count: expected"),
    (with_phase(count=10**400), "phases[0].count: expected a whole number from 1 to 2^62, got 1000"),
    (with_phase(count=2**62 + 1), "phases[0].count: expected"),
    (with_phase(count=...), "phases[0].count: expected a value, got none"),
    (with_phase(steps=3), "phases[0]: expected the keys pair, count, got 'steps'"),
    (with_phase(pair=None), "phases[0].pair: mechanism: expected a mapping"),
    (with_phase(pair=[1]), "phases[0].pair: mechanism: expected a mapping"),
    (with_phase(pair={"mechanism": "Gausian"}), "phases[0].pair: mechanism: expected the name of"),
    (with_phase(pair={**PAIR, "scale": float("nan")}), "phases[0].pair: SubsampledGaussian.scale: expected a finite"),
    (with_phase(pair={**PAIR, "scale": "1"}), "phases[0].pair: SubsampledGaussian.scale: expected a number, got '1'"),
    (with_phase(pair={**PAIR, "scale": [1]}), "phases[0].pair: SubsampledGaussian.scale: expected a number"),
    (with_phase(pair={**PAIR, "scale": 10**400}), "phases[0].pair: SubsampledGaussian.scale: expected a finite number"),
    (with_phase(pair={**PAIR, "scale": True}), "phases[0].pair: SubsampledGaussian.scale: expected a number"),
    (with_phase(pair={**PAIR, "σ": 1}), "phases[0].pair: SubsampledGaussian: expected its parameters by name"),
    (with_phase(pair={**PAIR, "scale": {"mechanism": 1}}), "phases[0].pair: mechanism: expected the name of"),
    (with_phase(pair={"mechanism": "Product", "pairs": []}), "phases[0].pair: Product.pairs: give at least one"),
    (with_phase(pair={"mechanism": "Reversed", "pair": 3}), "phases[0].pair: Reversed.pair: expected a mechanism"),
    (with_phase(pair={"mechanism": "Histogram", "p": [1], "q": "x"}), "phases[0].pair: Histogram"),
]


@pytest.mark.parametrize(("document", "problem"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_documents_are_refused_by_the_field(document: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Accountant.from_document(document)
    assert str(refused.value).startswith(problem)
    assert len(str(refused.value)) < 600


def test_phases_together_are_checked() -> None:
    phases = [{"pair": PAIR, "count": 2**62}, {"pair": {**PAIR, "scale": 2.0}, "count": 1}]
    with pytest.raises(InvalidInputError, match=r"^phases\[1\]: expected at most 2\^62 steps in all"):
        Accountant.from_document(changed(phases=phases))
    # Equal phases in a row are one, also in a document that somebody else wrote.
    run = Accountant.from_document(changed(phases=[{"pair": PAIR, "count": 2}, {"pair": PAIR, "count": 3}]))
    assert run == Accountant().add(SubsampledGaussian(1.0, 0.1), 5)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@strategies.examples(240)
@given(st.data())
def test_anything_in_place_of_anything_is_refused_or_read(data: st.DataObject) -> None:
    """One value of a document is replaced: an error names a field, and what is read is written again."""
    document = json.loads(json.dumps(history().to_document()))
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(PLAIN)
    refused, run = None, Accountant()
    try:
        run = Accountant.from_document(document)
    except InvalidInputError as error:
        refused = str(error)
    assert refused is None or refused.startswith(("document", "pbdist", "format", "adjacency", "phases"))
    assert Accountant.from_document(run.to_document()) == run
