"""openb pods keep their shares of a GPU, their waiting time, and run on where the trace stops."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.trace_files import TraceError
from loadtest.trace_jobs import job_events
from loadtest.trace_openb import AS_OF_MS, BASE_MS, read_openb
from loadtest.traces import as_of_ms
from tests.loadtest.samples import OPENB

Write = Callable[[str, str], Path]
Real = Callable[[str], Path]


def test_shares_memory_and_the_first_allowed_model_are_kept(trace_file: Write) -> None:
    queued = next(job_events(read_openb(trace_file("o.csv", OPENB)))).value
    assert (queued["type"], queued["time_ms"]) == ("queued", BASE_MS + 10_000)
    assert (queued["gpu_count"], queued["cpu_count"], queued["memory_gib"]) == (0.46, 6, 12)
    assert queued["gpu_type"] == "P100"


def test_memory_is_rounded_to_the_three_decimals_of_the_contract(trace_file: Write) -> None:
    assert read_openb(trace_file("o.csv", OPENB))[1].memory_gib_milli == 29_802  # 30,517 MiB = 29.8017...


def test_a_pod_that_was_never_scheduled_is_only_queued(trace_file: Write) -> None:
    events = [
        e.value for e in job_events(read_openb(trace_file("o.csv", OPENB))) if e.value["job_id"] == "pod-c"
    ]
    assert [value["type"] for value in events] == ["queued"]


def test_a_pod_deleted_at_the_traces_last_second_still_runs(trace_file: Write) -> None:
    jobs = read_openb(trace_file("o.csv", OPENB))
    assert jobs[0].end_ms is None
    assert as_of_ms(jobs) == AS_OF_MS == BASE_MS + 12_902_960_000
    assert jobs[0].gpu_milli_ms(AS_OF_MS) == 460 * (12_902_960 - 20) * 1000


def test_each_phase_has_its_ending_event(trace_file: Write) -> None:
    types = [event.value["type"] for event in job_events(read_openb(trace_file("o.csv", OPENB)))]
    assert types == [
        "queued",
        "started",
        "queued",
        "started",
        "completed",
        "queued",
        "queued",
        "started",
        "failed",
    ]


def test_an_unknown_phase_is_refused(trace_file: Write) -> None:
    with pytest.raises(TraceError, match="pod_phase"):
        read_openb(trace_file("o.csv", OPENB.replace("Pending", "Evicted")))


def test_the_whole_trace_has_its_published_gpu_hours(real: Real) -> None:
    jobs = read_openb(real("jobs/alibaba2023_openb_pod_list_gpuspec33.csv"))
    gpu_milli_ms = sum(job.gpu_milli_ms(AS_OF_MS) for job in jobs)
    assert gpu_milli_ms / 3_600_000_000 == pytest.approx(51_470.674158, abs=1e-6)
    running = [job for job in jobs if job.start_ms is not None and job.end_ms is None]
    assert (len(jobs), len(running), sum(job.start_ms is None for job in jobs)) == (8152, 34, 897)
