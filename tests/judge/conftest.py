"""Servers shared by the judge's tests."""

from collections.abc import Iterator

import pytest

from tests.judge.services import Redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()
