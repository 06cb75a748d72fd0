import pytest

from tests.report.explorer.studies import STUDY


@pytest.fixture(scope="session")
def store(finished_store):
    """The store that most pages show, for reading only."""
    return finished_store(STUDY)
