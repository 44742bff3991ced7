"""A replay that goes on after a kill knows no price before its time, though the table has it already."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.replay.replay import _Replay
from streams.replay.segments import LogSegment, Replayed

EARLY = PriceEvent("s", "p", 0, "h100", Component.gpu, 2 * 10**9, Per.gpu_hour, 1, 0, {"region": "eu"})


def segment(prices: list[PriceEvent] | None) -> LogSegment:
    return LogSegment(files=["f"], run_start_ms=0, base={"jobs": [1]}, newest_ms=0, prices=prices)


def test_prices_of_the_begin_are_kept_and_the_table_is_not_asked_again() -> None:
    kept = msgspec.json.decode(msgspec.json.encode(Replayed(1, [segment([EARLY])])), type=Replayed).last
    replay = object.__new__(_Replay)
    vars(replay).update(_segment=kept, _store=SimpleNamespace())  # which would not answer
    assert replay._book().events == [EARLY]


def test_none_is_as_good_as_some() -> None:
    replay = object.__new__(_Replay)
    vars(replay).update(_segment=segment([]), _store=SimpleNamespace())
    assert len(replay._book()) == 0
