"""Answers of a moment become such as aiokafka retries; what is final stays final."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetFetchResponse_v1
from aiokafka.protocol.coordination import FindCoordinatorResponse_v0
from aiokafka.protocol.fetch import FetchResponse_v4
from aiokafka.protocol.group import HeartbeatResponse_v0, JoinGroupResponse_v0, SyncGroupResponse_v0

from streams.transport.momentary import OUT_OF_RANGE_FOR_S, Momentary

OUT_OF_RANGE, NOT_LEADER, UNAUTHORIZED = 1, 6, 29
LOADING, COORDINATOR_AWAY, REBALANCING, UNKNOWN_MEMBER, FENCED = 14, 15, 27, 25, 82


class Client:
    """Answers as told."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.now_s = 0.0
        self.paused_s: list[float] = []
        Momentary(lambda: self.now_s, self.pause).watch(self)

    async def pause(self, pause_s: float) -> None:
        self.paused_s.append(pause_s)

    async def send(self, node_id: int, request: Any, **_: Any) -> Any:
        return self.answer

    def ask(self, answer: Any) -> Any:
        self.answer = answer
        return asyncio.run(self.send(1, SimpleNamespace()))

    def fetch(self, code: int) -> int:
        (topic,) = self.ask(FetchResponse_v4(0, [("t", [(0, code, 5, 5, [], b"")])])).topics
        return int(topic[1][0][1])


@pytest.mark.parametrize("code", [-1, 3, 5, 6, 7, 9, 13, 56, 74, 75, 78, 100, 103])
def test_a_refused_fetch_is_repeated_after_metadata_and_not_at_once(code: int) -> None:
    client = Client()
    assert client.fetch(code) == NOT_LEADER
    assert len(client.paused_s) == 1


def test_a_fetch_with_records_is_not_held_up() -> None:
    client = Client()
    assert client.fetch(0) == 0
    assert client.paused_s == []


def test_an_offset_counts_as_out_of_range_when_it_stays_so() -> None:
    client = Client()
    assert client.fetch(OUT_OF_RANGE) == NOT_LEADER
    client.now_s = OUT_OF_RANGE_FOR_S - 1
    assert client.fetch(OUT_OF_RANGE) == NOT_LEADER
    client.fetch(0)
    client.now_s = OUT_OF_RANGE_FOR_S
    assert client.fetch(OUT_OF_RANGE) == NOT_LEADER, "in between it was in range"
    client.now_s = 2 * OUT_OF_RANGE_FOR_S
    assert client.fetch(OUT_OF_RANGE) == OUT_OF_RANGE


@pytest.mark.parametrize(
    ("answer", "becomes"),
    [
        (HeartbeatResponse_v0(LOADING), COORDINATOR_AWAY),
        (HeartbeatResponse_v0(-1), COORDINATOR_AWAY),
        (HeartbeatResponse_v0(REBALANCING), REBALANCING),
        (HeartbeatResponse_v0(FENCED), FENCED),
        (SyncGroupResponse_v0(LOADING, b""), COORDINATOR_AWAY),
        (SyncGroupResponse_v0(UNKNOWN_MEMBER, b""), UNKNOWN_MEMBER),
        (JoinGroupResponse_v0(REBALANCING, 0, "", "", "", []), LOADING),
        (JoinGroupResponse_v0(22, 0, "", "", "", []), UNKNOWN_MEMBER),
        (JoinGroupResponse_v0(23, 0, "", "", "", []), 23),
        (FindCoordinatorResponse_v0(-1, 1, "", 1), COORDINATOR_AWAY),
        (FindCoordinatorResponse_v0(30, 1, "", 1), 30),
    ],
)
def test_answers_about_the_group(answer: Any, becomes: int) -> None:
    assert Client().ask(answer).error_code == becomes


def test_offsets_that_cannot_be_told_yet_are_asked_for_again() -> None:
    def asked(code: int) -> int:
        (topic,) = Client().ask(OffsetFetchResponse_v1([("t", [(0, 5, "", code)])])).topics
        return int(topic[1][0][-1])

    assert [asked(code) for code in (0, COORDINATOR_AWAY, 88, UNAUTHORIZED)] == [
        0,
        LOADING,
        LOADING,
        UNAUTHORIZED,
    ]
