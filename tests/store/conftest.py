"""The fixture of an object store."""

from tests.s3_server import bucket  # noqa: F401 -- a fixture
