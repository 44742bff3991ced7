"""The times of sampled jobs as columns: a job reads them with its own, keeps them when it leaves, and its place is free again."""

from __future__ import annotations

import itertools

import numpy as np

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.state.job import JobState
from streams.engine.state.sample_times import SampleTimes, source_key


def times_of(job: JobState) -> tuple[int, int, int]:
    return job.first_ms, job.last_ms, job.heard_ms


A, B = sorted(("dcgm/a", "dcgm/b"), key=source_key)


def merge(times: SampleTimes, *rows: tuple[int, int, int], source: str = A) -> None:
    place, first_ms, last_ms = zip(*rows, strict=True)
    times.know({source_key(source): source})
    keys = np.full(len(rows), source_key(source), np.int64)
    times.merge(np.array(place, np.int32), np.array(first_ms, np.int64), np.array(last_ms, np.int64), keys)


def test_a_job_reads_the_times_of_its_place_with_its_own() -> None:
    times, job = SampleTimes(), JobState("j")
    job.touch(50)
    place = job.place_in(times)
    assert (job.place_in(times), times_of(job)) == (place, (50, 50, BEGINNING_MS))
    merge(times, (place, 60, 70), (place, 20, 30))  # of two attempts
    assert times_of(job) == (20, 70, 70)
    job.touch(90)
    assert times_of(job) == (20, 90, 70)
    job.record_activity(10, "sdk")
    assert times_of(job) == (10, 90, 70)


def test_a_job_keeps_the_times_when_it_leaves_its_place_to_another() -> None:
    times, one, other = SampleTimes(), JobState("j1"), JobState("j2")
    place = one.place_in(times)
    merge(times, (place, 20, 30))
    one.drop_place()
    assert other.place_in(times) == place
    assert (times_of(one), times_of(other)) == ((20, 30, 30), (NEVER_MS, BEGINNING_MS, BEGINNING_MS))


def test_times_of_a_snapshot_replace_those_of_the_place() -> None:
    times, job = SampleTimes(), JobState("j")
    merge(times, (job.place_in(times), 20, 30))
    job.set_times(40, 50, 45)
    assert times_of(job) == (40, 50, 45)


def test_the_source_is_that_of_the_newest_sign_and_of_one_instant_the_one_with_the_larger_key() -> None:
    rows = [(20, A), (30, B), (30, A), (10, B), (25, A)]
    for order in itertools.permutations(rows):
        times, job = SampleTimes(), JobState("j")
        for number, (at_ms, source) in enumerate(order):
            if number % 2:
                job.record_activity(at_ms, source)
            else:
                merge(times, (job.place_in(times), at_ms, at_ms), source=source)
        assert (job.heard_ms, job.heard_source) == (30, B)
        job.drop_place()
        assert (job.heard_ms, job.heard_source) == (30, B)


def test_a_snapshot_has_a_source_once_until_it_is_another_one() -> None:
    job = JobState("j")
    job.record_activity(10, A)
    assert (job.unsaved_source(), job.unsaved_source()) == (A, "")
    job.record_activity(20, B)
    assert (job.unsaved_source(), job.unsaved_source()) == (B, "")
    restored = JobState("j")
    restored.set_times(10, 20, 20, B)
    assert (restored.heard_source, restored.unsaved_source()) == (B, "")


def test_a_snapshot_has_the_source_of_samples_and_heartbeats_that_take_turns() -> None:
    times, job = SampleTimes(), JobState("j")
    for k in range(1, 5):
        merge(times, (job.place_in(times), 10 * k, 10 * k), source=A)
        assert (job.unsaved_source(), job.unsaved_source()) == (A, "")
        merge(times, (job.place_in(times), 10 * k + 1, 10 * k + 1), source=A)
        assert job.unsaved_source() == ""
        job.record_activity(10 * k + 5, B)
        assert (job.unsaved_source(), job.unsaved_source()) == (B, "")


def test_names_that_no_place_has_are_forgotten() -> None:
    times, job = SampleTimes(), JobState("j")
    merge(times, (job.place_in(times), 10, 10), source="gone")
    merge(times, (job.place_in(times), 20, 20), source=A)
    times.know({source_key(B): B})
    assert set(times._names.values()) == {A, B}


def test_each_job_has_a_place_of_its_own() -> None:
    times = SampleTimes()
    jobs = [JobState(f"j{number}") for number in range(1000)]
    places = [job.place_in(times) for job in jobs]
    merge(times, *((place, 10 + place, 20 + place) for place in places))
    assert sorted(places) == list(range(1000))
    assert [times_of(job) for job in jobs] == [(10 + place, 20 + place, 20 + place) for place in places]


def test_a_job_that_leaves_memory_frees_its_place() -> None:
    shard, job, next_one = Shard(0, ShardSettings(), PriceBook.empty()), JobState("j1"), JobState("j2")
    times = shard.samples.times
    place = job.place_in(times)
    shard.samples.forget(job)
    assert next_one.place_in(times) == place
