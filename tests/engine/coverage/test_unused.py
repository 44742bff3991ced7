"""Until when each GPU worked: the same in any batch, after a crash, and back from the archive; and which are unused by it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import GpuEvent
from streams.engine.coverage.blob_form import Blob, read
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.unused import UnusedGpus
from tests.engine.coverage.samples import T0_S, histories, sample
from tests.engine.coverage.test_coverage import HORIZON_S

Worked = dict[tuple[str, int, str, str], int]


def noted(worked: Worked, records: list[GpuEvent]) -> None:
    """A record covers whole seconds; the first of a GPU says since when it is there."""
    for record in records:
        begin_s, end_s = (record.time_ms - record.interval_ms) // 1000, record.time_ms // 1000
        for gpu, ratio in zip(record.gpus, record.util_ratio, strict=True):
            if record.job_id and end_s > begin_s:
                key = record.job_id, record.attempt, record.node, gpu
                known = worked.setdefault(key, begin_s)
                worked[key] = max(known, end_s) if round(ratio * 1000) >= 20 else known


def kept(coverage: Coverage) -> Worked:
    return {
        (holder.job_id, holder.attempt, holder.node, gpu): at_s
        for holder in coverage.holders()
        for gpu, slot in holder.gpus.items()
        if holder.job_id and (at_s := int(coverage._arrays.worked_s[slot])) > 0
    }


@given(histories(), st.sets(st.integers(0, 6)), st.integers(0, 6), st.booleans())
def test_it_is_the_same_in_any_batch_and_after_a_crash(
    batches: list[list[GpuEvent]], exports: set[int], crash: int, compact: bool
) -> None:
    coverage, worked = Coverage(HORIZON_S), Worked()
    blobs = [coverage.export_dirty(coverage.holders())]
    for number, batch in enumerate(batches):
        noted(worked, batch)
        coverage.fold(batch)
        if number in exports:
            blobs.append(coverage.export_dirty())
        if compact:
            coverage._names.compact()
        if number == crash:
            blobs.append(coverage.export_dirty())
            coverage = Coverage(HORIZON_S)
            for blob in blobs:
                coverage.apply(blob)
            blobs = [coverage.export_dirty(coverage.holders())]
    assert kept(coverage) == worked
    archived = [coverage.export([job_id]) for job_id in ("j1", "j2")]
    coverage.forget(["j1", "j2"])
    for blob in archived:
        coverage.adopt(blob)
    assert kept(coverage) == worked


def _two_hours(
    coverage: Coverage, *, rests: tuple[str, ...], nodes: tuple[str, ...] = ("n",), **about: int
) -> None:
    """Four GPUs of each node, of which some of the first one work in the first half hour alone."""
    for minute in range(10, 121, 10):
        for node in nodes:
            idle = rests if node == nodes[0] and minute > 30 else ()
            util = [0.0 if gpu in idle else 0.9 for gpu in "abcd"]
            coverage.fold([sample(60 * minute, 600, node=node, gpus=[*"abcd"], util_ratio=util, **about)])


UNTIL_S, WAIT_S = T0_S + 7200, 3600


def test_it_names_gpus_that_rest_while_others_work() -> None:
    coverage = Coverage()
    _two_hours(coverage, rests=("b", "d"))
    assert coverage.jobs_with_rest(UNTIL_S, WAIT_S) == ["j"]
    assert coverage.unused_of("j", UNTIL_S, WAIT_S) == UnusedGpus((("n", "b"), ("n", "d")), T0_S + 1800, 4)
    assert coverage.unused_of("j", UNTIL_S, 5401) is None
    assert coverage.jobs_with_rest(UNTIL_S, 5401) == []
    assert coverage.unused_of("j", UNTIL_S + 601, WAIT_S) is None, "they are not sampled any more"


def test_all_of_a_job_and_most_of_one_node_of_several_are_for_other_rules() -> None:
    every, most, half = Coverage(), Coverage(), Coverage()
    _two_hours(every, rests=("a", "b", "c", "d"))
    _two_hours(most, rests=("a", "b", "c"), nodes=("n", "m"))
    _two_hours(half, rests=("a", "b"), nodes=("n", "m"))
    assert every.unused_of("j", UNTIL_S, WAIT_S) is None
    assert most.unused_of("j", UNTIL_S, WAIT_S) is None
    found = half.unused_of("j", UNTIL_S, WAIT_S)
    assert found is not None
    assert (found.gpus, found.sampled) == ((("n", "a"), ("n", "b")), 8)


def test_only_gpus_of_the_newest_attempt_count() -> None:
    coverage = Coverage()
    _two_hours(coverage, rests=("a",))
    coverage.fold([sample(7200, 60, attempt=2, gpus=[*"abcd"], util_ratio=[0.9] * 4)])
    assert coverage.unused_of("j", UNTIL_S, WAIT_S) is None


def test_of_a_blob_that_a_former_version_wrote_nothing_is_known_from_before_the_newest_sample() -> None:
    coverage, restored = Coverage(), Coverage()
    _two_hours(coverage, rests=("b",))
    blob = read(coverage.export_dirty(coverage.holders()))
    former = Blob(**{name: getattr(blob, name) for name in Blob.__struct_fields__ if name != "worked"})
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(former))
    restored.apply(msgspec.msgpack.encode(data[:-1]))
    assert restored.unused_of("j", UNTIL_S, WAIT_S) is None
    restored.fold([sample(7200 + 3660, 3660, gpus=[*"abcd"], util_ratio=[0.9, 0.0, 0.9, 0.9])])
    found = restored.unused_of("j", UNTIL_S + 3660, WAIT_S)
    assert found is not None
    assert found.gpus == (("n", "b"),)
