"""Duty cycles are laid over jobs by a fixed rule: k-th job, k-th pod, gaps kept, repeated, cut."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.trace_files import TraceError
from loadtest.trace_gentd26 import Pair, Series, pair, read_series, sample_events, write_pairs
from loadtest.trace_helios import read_helios
from tests.loadtest.samples import DUTY, HELIOS

Write = Callable[[str, str], Path]
Real = Callable[[str], Path]


@pytest.fixture
def pairs(trace_file: Write) -> list[Pair]:
    """The only GPU job of at least an hour (16 GPUs on 2 nodes, 7,200 s) with the first pod."""
    return pair(read_helios(trace_file("h.csv", HELIOS)), read_series(trace_file("d.csv", DUTY)))


def test_series_are_ordered_by_pod_and_keep_their_gaps(trace_file: Write) -> None:
    first, second = read_series(trace_file("d.csv", DUTY))
    assert first == Series("aaaaaaaaaa", {0: 0.0, 1: 100.0})
    assert second == Series("bbbbbbbbbb", {0: 50.0, 2: 25.0})
    assert (first.ticks, second.ticks) == (2, 3)


def test_short_and_cpu_only_jobs_get_no_samples(pairs: list[Pair]) -> None:
    assert [(one.job.job_id, one.series.pod) for one in pairs] == [("helios-2", "aaaaaaaaaa")]


def test_a_sample_covers_its_tick_on_every_node_of_the_job(pairs: list[Pair]) -> None:
    events = sorted(sample_events(pairs))
    assert [event.value["node"] for event in events[:2]] == ["aaaaaaaa-0", "aaaaaaaa-1"]
    assert events[0].value["gpus"] == [str(gpu) for gpu in range(8)]
    assert (events[0].time_ms, events[0].value["interval_ms"]) == (pairs[0].start_ms + 57_000, 57_000)


def test_the_series_repeats_and_is_cut_at_the_jobs_end(pairs: list[Pair]) -> None:
    events = [event for event in sorted(sample_events(pairs)) if event.value["node"].endswith("-0")]
    assert len(events) == 7200 // 57
    assert [event.value["util_ratio"][0] for event in events[:4]] == [0.0, 1.0, 0.0, 1.0]
    assert pairs[0].job.end_ms is not None
    assert events[-1].time_ms <= pairs[0].job.end_ms


def test_a_missing_tick_stays_missing(pairs: list[Pair]) -> None:
    gapped = replace(pairs[0], series=Series("bbbbbbbbbb", {0: 50.0, 2: 25.0}))
    ticks = {event.time_ms for event in sample_events([gapped])}
    assert len(ticks) == 7200 // 57 // 3 * 2


def test_a_duty_cycle_over_a_hundred_is_refused(trace_file: Write) -> None:
    with pytest.raises(TraceError, match="duty cycle"):
        read_series(trace_file("d.csv", DUTY.replace("100.0,", "100.5,")))


def test_the_pairs_can_be_read_back(pairs: list[Pair], tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.csv", pairs)
    assert (tmp_path / "pairs.csv").read_text().splitlines()[1] == "helios-2,aaaaaaaaaa,16.0,2,7200,2,126"


def test_all_eighty_pods_find_a_job(real: Real) -> None:
    duty = real("gpu_usage/gentd26_pod_gpu_duty_cycle_anon_part1.csv.gz")
    found = pair(read_helios(real("jobs/helios_15000_jobs.csv")), read_series(duty))
    assert len(found) == 80
    assert sum(len(one.series.percent) for one in found) == 90_752
