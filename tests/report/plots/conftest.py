import pytest

from pbdist import open_study
from tests.report.plots.pictures import GAUSSIAN


@pytest.fixture(scope="session")
def study(finished_store):
    """The study that most plots are drawn of, opened."""
    return open_study(finished_store(GAUSSIAN))
