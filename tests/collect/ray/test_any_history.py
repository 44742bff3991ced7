"""Whatever a job holds when, and whenever it is asked for: the events are the same, and their GPU-time is what was held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import assume, given
from hypothesis import strategies as st

from streams.collect.collector import CollectedEvent
from streams.collect.ray.events import new_events
from streams.collect.ray.holdings import RayCluster
from streams.collect.ray.options import Options
from streams.collect.ray.progress import OpenJob
from streams.collect.ray.records import RayActor, RayJob, RayNode

T0_MS: Final = 1_789_992_000_000
_NODES: Final = {name: RayNode(name, f"node-{name}", 8000, "H100", T0_MS - 1, 0) for name in "ab"}

Spans = Sequence[tuple[str, int, int, int]]  # node, thousandths of a GPU, begin and length in ms


def look(spans: Spans, end_ms: int, now_ms: int) -> tuple[RayJob, RayCluster]:
    """What Ray says at a time."""
    has_ended = end_ms <= now_ms
    job = RayJob(
        "j1", "01", "SUCCEEDED" if has_ended else "RUNNING", "", T0_MS, end_ms if has_ended else 0, {}
    )
    actors = [
        RayActor(
            "01",
            "",
            node,
            milli,
            False,
            T0_MS + begin,
            T0_MS + begin + size if T0_MS + begin + size <= now_ms else 0,
        )
        for node, milli, begin, size in spans
        if T0_MS + begin <= now_ms
    ]
    supervisor = RayActor("00", "j1", "a", 0, False, T0_MS + 1, 0)
    return job, RayCluster([job], _NODES, {"j1": supervisor}, {"01": actors}, {}, {})


def events_at(polls_ms: Sequence[int], spans: Spans, end_ms: int) -> list[CollectedEvent]:
    """The events of a collector that asks at these times; Ray shows all at once."""
    known: OpenJob | None = OpenJob("j1", 1)
    found: list[CollectedEvent] = []
    before_ms = 0
    for now_ms in polls_ms:
        if known is None:
            break
        job, cluster = look(spans, end_ms, now_ms)
        news = new_events(job, known, cluster, before_ms, now_ms, T0_MS, Options())
        assert not news.fault
        found += news.events
        known, before_ms = news.job, now_ms
    return found


def gpu_milli_ms(events: Sequence[CollectedEvent]) -> int:
    """Thousandths of a GPU x ms, by the counts that events name and the times between them."""
    total = held = since_ms = 0
    for _, value in events:
        total += held * (value["time_ms"] - since_ms)
        since_ms = value["time_ms"]
        held = round(value["gpu_count"] * 1000) if "gpu_count" in value else held
        if value["type"] == "completed":
            held = 0
    return total


@given(
    spans=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from([500, 1000, 3000]), st.integers(2, 90), st.integers(1, 60)
        ),
        min_size=1,
        max_size=8,
    ),
    end=st.integers(10, 120),
    polls=st.lists(st.integers(0, 130), max_size=12),
)
def test_gpu_time_is_what_was_held_however_often_it_is_asked_for(
    spans: Spans, end: int, polls: Sequence[int]
) -> None:
    spans = [span for span in spans if span[2] < end]  # nothing begins after its job
    assume(spans)
    end_ms = T0_MS + end
    polls_ms = [T0_MS + each for each in sorted({*polls, 200})]
    often, once = events_at(polls_ms, spans, end_ms), events_at([T0_MS + 200], spans, end_ms)
    assert [value for _, value in often if value["type"] != "queued"] == [
        value for _, value in once if value["type"] != "queued"
    ]
    held = sum(milli * max(0, min(begin + size, end) - begin) for _, milli, begin, size in spans)
    assert gpu_milli_ms(once) == held
