"""A running meter for each module that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import _free_ports
from tests.serve.run import Serves
from tests.serve.running import Running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    (port,) = _free_ports(1)
    directory = tmp_path_factory.mktemp("running")
    env = {"TRAINFARE_WEB_PORT": str(port), "TRAINFARE_KAFKA_PARTITIONS": "1"}
    with Serves(directory, env) as serves:
        life = serves.start()
        life.wait_ready()
        yield Running(port, directory / "data")
        assert life.terminate() == 0
