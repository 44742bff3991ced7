"""New jobs are sent and looked for; those that never come, and looks that fail, are kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest

from loadtest import abuse_live
from loadtest.abuse_live import Live
from sinks.errors import QueryFailed
from streams.config.settings import KafkaSettings


class Log:
    """A producer that remembers."""

    def __init__(self, _: KafkaSettings) -> None:
        self.sent: list[bytes] = SENT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, _topic: object, key: bytes, _value: bytes) -> None:
        self.sent.append(key)


class Store:
    """Finds every job but the second, and fails at the first look."""

    def __init__(self, _: Path) -> None:
        self.looks = 0

    def names(self, _: str, jobs: Iterable[str]) -> list[str]:
        self.looks += 1
        if self.looks == 1:
            raise QueryFailed("not yet")
        if self.looks == 4:
            LOOKED.set()
        return [job for job in jobs if job != "probe-1"]

    def close(self) -> None:
        CLOSED.set()


SENT: list[bytes] = []
LOOKED, CLOSED = threading.Event(), threading.Event()


def test_jobs_that_come_have_a_time_and_others_have_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, other in (("Store", Store), ("LogProducer", Log), ("PER_S", 1e3), ("_POLL_S", 0.0)):
        monkeypatch.setattr(abuse_live, name, other)
    live = Live(KafkaSettings(), tmp_path)
    live.start()
    assert LOOKED.wait(20)
    live.end()
    assert live.faults == ["not yet"]
    assert CLOSED.is_set()
    probes = live.between(0.0, float("inf"))
    assert len(SENT) == 2 * len(probes)
    assert probes[0].ms is not None
    assert probes[1].ms is None
    assert live.between(probes[0].at_s, probes[0].at_s) == []
