"""Hypothesis strategies of GPU records: disorder, overlaps, duplicates, long and late intervals, two exporters."""

from __future__ import annotations

from hypothesis import strategies as st

from schemas.events import GpuEvent

T0_S = 1_700_000_000

ratios = st.one_of(st.sampled_from([0.0, 1.0, 0.0005, 0.0015, 0.5, 0.9995]), st.floats(0, 1))
amounts = st.one_of(st.sampled_from([0.0, 0.5, 1.5, 80_000.0]), st.floats(0, 1e19))
# Around a horizon of 20 s: inside, across it, and far longer than the ring.
intervals_ms = st.one_of(
    st.integers(1, 1500), st.integers(900, 25_000), st.sampled_from([1000, 10_000, 3_600_000])
)


@st.composite
def records(draw: st.DrawFn) -> GpuEvent:
    gpus = draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=4))
    values = st.lists(ratios, min_size=len(gpus), max_size=len(gpus))
    extras = st.one_of(st.none(), st.lists(amounts, min_size=len(gpus), max_size=len(gpus)))
    return GpuEvent(
        source=draw(st.sampled_from(["x", "y"])),
        id="",
        time_ms=T0_S * 1000 + draw(st.integers(0, 150_000)),
        node=draw(st.sampled_from(["n1", "n1", "n2"])),
        job_id=draw(st.sampled_from(["j1", "j1", "j1", "j2", ""])),
        attempt=draw(st.sampled_from([1, 1, 2])),
        interval_ms=draw(intervals_ms),
        gpus=gpus,
        util_ratio=draw(values),
        sm_ratio=draw(st.one_of(st.none(), values)),
        tensor_ratio=draw(st.one_of(st.none(), st.none(), values)),
        memory_used_mib=draw(extras),
        power_w=draw(extras),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[list[GpuEvent]]:
    """Batches, some records twice."""
    batches = draw(st.lists(st.lists(records(), max_size=6), max_size=6))
    every = [record for batch in batches for record in batch]
    if every:
        batches.append(draw(st.lists(st.sampled_from(every), max_size=4)))
    return batches


def sample(time_s: int, interval_s: int, **changes: object) -> GpuEvent:
    """One GPU at full use, `time_s` after T0."""
    values: dict[str, object] = {"source": "x", "id": "", "node": "n", "job_id": "j", "attempt": 1}
    values |= {"time_ms": (T0_S + time_s) * 1000, "interval_ms": interval_s * 1000}
    values |= {"gpus": ["g"], "util_ratio": [1.0]} | changes
    return GpuEvent(**values)  # type: ignore[arg-type]  # a test's own keyword values
