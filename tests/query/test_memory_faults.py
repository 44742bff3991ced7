"""Memory that runs out is reported as the query's limit, in whatever form the engine or Python raises it."""

from __future__ import annotations

import io

import pytest

from sinks.query import child, confine, wire
from sinks.query.limits import QueryLimits
from sinks.query.session import failing

LIMITS = QueryLimits(memory_bytes=64 * 2**20)


NO_THREAD = (
    "Code: 439. DB::Exception: Cannot schedule a task: std::exception. Code: 1001, e.what() = thread constructor failed, "
    "Stack trace (when copying this message, always include the lines below):\n\n"
    "0. arrow::acero::TableSinkNodeConsumer::Finish() (.cold) @ 0x0000000000030434\n1. ? @ 0x000000002061bfc7 "
    "(threads=40, jobs=11). (CANNOT_SCHEDULE_TASK), Stack trace (when copying this message, always include the lines "
    "below):\n\n0. ? @ 0x000000001d967133: While executing MergeTreeSelect(pool: ReadPoolInOrder)."
)


class Failing:
    """A query that ends in the fault."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def run(self, request: wire.Request, out: object) -> int:
        with failing():
            raise self._fault

    def reads(self) -> None:
        """Not asked for: the query failed."""


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"),
        RuntimeError("can't start new thread"),
        RuntimeError(f"{NO_THREAD} (CANNOT_SCHEDULE_TASK)"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("Could not allocate bytes object!"),
        MemoryError(),
    ],
)
def test_it_is_named_as_the_limit(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "end_after", lambda _ms: None)
    reply = child._reply(Failing(fault), wire.Request("SELECT 1", {}, "json"), io.BytesIO(), LIMITS)
    assert (reply.outcome, reply.reusable) == ("failed", False)
    assert "64 MiB of memory (query.max_memory_bytes)" in reply.message


def test_any_other_fault_within_a_stream_is_the_querys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "end_after", lambda _ms: None)
    fault = RuntimeError("Code: 6. DB::Exception: Cannot parse string (CANNOT_PARSE_TEXT)")
    reply = child._reply(Failing(fault), wire.Request("SELECT 1", {}, "json"), io.BytesIO(), LIMITS)
    assert reply.outcome == "failed"
    assert "CANNOT_PARSE_TEXT" in reply.message


def test_addresses_within_the_engine_are_no_part_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "end_after", lambda _ms: None)
    fault = RuntimeError(NO_THREAD.replace("CANNOT_SCHEDULE_TASK", "CANNOT_PARSE_TEXT"))
    reply = child._reply(Failing(fault), wire.Request("SELECT 1", {}, "json"), io.BytesIO(), LIMITS)
    assert reply.message == (
        "Code: 439. DB::Exception: Cannot schedule a task: std::exception. Code: 1001, e.what() = thread constructor failed "
        "(threads=40, jobs=11). (CANNOT_PARSE_TEXT): While executing MergeTreeSelect(pool: ReadPoolInOrder)."
    )
