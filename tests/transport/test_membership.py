"""What the group says of a worker, as the worker takes it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetCommitResponse_v2
from aiokafka.protocol.group import HeartbeatResponse_v0

from streams.errors import TrainfareError
from streams.transport.membership import Membership

UNKNOWN, REBALANCING = 25, 27


class Coordinator:
    """aiokafka's, with answers by command."""

    generation = 7

    def __init__(self) -> None:
        self.answer: Any = None
        self.rejoins = 0

    async def _do_heartbeat(self) -> bool:
        return not (await self._send_req(SimpleNamespace())).error_code

    async def _do_rejoin_group(self, _subscription: object) -> None:
        return None

    async def _send_req(self, _request: object) -> Any:
        return self.answer

    def request_rejoin(self) -> None:
        self.rejoins += 1


def told(
    answer: Any, *, name: str | None = "worker-0", session_s: float = 60.0
) -> tuple[list[TrainfareError], int]:
    """What is said after an answered heartbeat and then this answer; how often it would join again."""
    said: list[TrainfareError] = []
    coordinator, membership = Coordinator(), Membership(session_s, name, said.append)
    membership.watch(coordinator)

    async def go() -> None:
        coordinator.answer = HeartbeatResponse_v0(0)
        await coordinator._do_heartbeat()
        coordinator.answer = answer
        await coordinator._send_req(SimpleNamespace())
        coordinator.request_rejoin()

    asyncio.run(go())
    return said, coordinator.rejoins


@pytest.mark.parametrize(
    "answer", [HeartbeatResponse_v0(UNKNOWN), OffsetCommitResponse_v2([("t.jobs", [(0, 0), (1, UNKNOWN)])])]
)
def test_a_name_that_another_took_within_the_session_is_given_up(answer: Any) -> None:
    (fault,), rejoins = told(answer)
    assert "another worker has joined as kafka.group_instance_id=worker-0" in str(fault)
    assert rejoins == 0


def test_what_is_no_loss_of_the_name_changes_nothing() -> None:
    assert told(HeartbeatResponse_v0(REBALANCING)) == ([], 1)
    assert told(OffsetCommitResponse_v2([("t.jobs", [(0, 0)])])) == ([], 1)
    assert told(HeartbeatResponse_v0(UNKNOWN), name=None) == ([], 1)
    # The session is over, so the group may have forgotten us by itself.
    assert told(HeartbeatResponse_v0(UNKNOWN), session_s=0.0) == ([], 1)


@pytest.mark.parametrize("joining", [False, True])
def test_an_answer_that_waited_while_we_were_frozen_makes_nobody_a_member(
    joining: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1_000.0]
    monkeypatch.setattr("streams.transport.membership.time.monotonic", lambda: now_s[0])
    coordinator, membership = Coordinator(), Membership(10.0, None, lambda _: None)
    answered_after_s = [0.0]

    async def answer(*_: object) -> bool:
        now_s[0] += answered_after_s[0]
        return True

    coordinator._do_heartbeat = answer  # type: ignore[method-assign]  # the broker that is played
    coordinator._do_rejoin_group = answer  # type: ignore[method-assign,assignment]  # the same
    membership.watch(coordinator)

    async def ask() -> None:
        if joining:
            await coordinator._do_rejoin_group(None)
            membership.joined()
        else:
            await coordinator._do_heartbeat()

    asyncio.run(ask())
    assert membership.is_recent()
    answered_after_s[0] = 60.0
    asyncio.run(ask())
    assert not membership.is_recent()
