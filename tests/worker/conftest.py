"""The same tests on both brokers: the one in the process, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.replay.broker import EmbeddedBroker
from tests.kafka.broker import shared_broker
from tests.worker.lab import Lab, make_lab


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
def lab(request: pytest.FixtureRequest) -> Lab:
    """A corner of each kind of cluster."""
    if request.param == "real":
        return make_lab(shared_broker().bootstrap_servers, None)
    broker: EmbeddedBroker = request.getfixturevalue("embedded_broker")
    return make_lab(broker.bootstrap_servers, broker)
