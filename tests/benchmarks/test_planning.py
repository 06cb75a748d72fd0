from tests.benchmarks.planning import in_own_process


def test_many_cells_are_planned_in_little_memory(record_property) -> None:  # type: ignore[no-untyped-def]
    found = in_own_process(100_000)
    for name, value in found.items():
        record_property(name, value)
    assert found["cells"] >= 99_000
    assert found["lacking parts"] == 2
    # Of which an empty process takes 70.
    assert found["MiB"] < 250
