"""Memory that runs out is reported as the query's limit, in whatever form the engine or Python raises it."""

from __future__ import annotations

import io

import pytest

from sinks.query import child, confine, wire
from sinks.query.limits import QueryLimits
from sinks.query.session import failing

LIMITS = QueryLimits(memory_bytes=64 * 2**20)


class Failing:
    """A query that ends in the fault."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def run(self, request: wire.Request, out: object) -> int:
        with failing():
            raise self._fault


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"),
        RuntimeError("can't start new thread"),
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
