"""Helios rows become started and ended jobs whose GPU-hours are the trace's own."""

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.trace_files import TraceError
from loadtest.trace_helios import BASE_MS, read_helios
from loadtest.trace_jobs import job_events, spread
from loadtest.traces import as_of_ms, main
from tests.loadtest.samples import HELIOS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Write = Callable[[str, str], Path]
Real = Callable[[str], Path]


def test_a_job_starts_at_the_sum_of_the_intervals_before_it(trace_file: Write) -> None:
    jobs = read_helios(trace_file("h.csv", HELIOS))
    assert [job.start_ms for job in jobs] == [BASE_MS, BASE_MS + 100_000, BASE_MS + 150_000]
    assert [job.end_ms for job in jobs] == [BASE_MS + 84_000, BASE_MS + 7_300_000, BASE_MS + 3_750_000]


def test_the_first_event_says_all_that_the_trace_knows(trace_file: Write) -> None:
    events = list(job_events(read_helios(trace_file("h.csv", HELIOS))))
    assert events[2].value == {
        "id": "helios-2-started",
        "source": "helios",
        "time_ms": BASE_MS + 100_000,
        "job_id": "helios-2",
        "type": "started",
        "gpu_count": 16,
        "cpu_count": 64,
        "cluster": "venus",
        "gpu_type": "V100",
        "purchase": "on_prem",
        "owner": "user-9",
        "team": "team-1",
        "labels": {"node_num": "2"},
    }


def test_each_status_has_its_ending_event(trace_file: Write) -> None:
    events = list(job_events(read_helios(trace_file("h.csv", HELIOS))))
    assert [event.value["type"] for event in events[1::2]] == ["completed", "cancelled", "failed"]
    assert events[5].value["reason"] == "unknown"


def test_a_cpu_only_job_is_priced_by_its_vcpus(trace_file: Write) -> None:
    cpu_only = read_helios(trace_file("h.csv", HELIOS))[2]
    assert cpu_only.fields == {"cluster": "venus", "instance_type": "cpu", "purchase": "on_prem"}
    assert (cpu_only.gpu_milli, cpu_only.cpu_milli) == (0, 8_000)


def test_an_unknown_status_is_refused(trace_file: Write) -> None:
    with pytest.raises(TraceError, match="new_status"):
        read_helios(trace_file("h.csv", HELIOS.replace("Killed", "Lost")))


def test_an_extract_is_taken_at_even_steps(trace_file: Write) -> None:
    jobs = read_helios(trace_file("h.csv", HELIOS))
    assert [job.job_id for job in spread(jobs, 2)] == ["helios-0", "helios-2"]
    assert spread(jobs, 9) == jobs


def test_the_whole_trace_has_its_published_gpu_hours(real: Real) -> None:
    jobs = read_helios(real("jobs/helios_15000_jobs.csv"))
    end_ms = as_of_ms(jobs)
    gpu_milli_ms = sum(job.gpu_milli_ms(end_ms) for job in jobs)
    assert gpu_milli_ms == 1_290_987_967 * 1000 * 1000  # 358,607.77 GPU-hours, in thousandths x ms
    assert Counter(job.end_type for job in jobs) == {"completed": 9316, "cancelled": 3452, "failed": 2232}
    assert len({job.job_id for job in jobs}) == 15_000


def test_the_example_is_rebuilt_byte_for_byte(real: Real, tmp_path: Path) -> None:
    rebuilt = tmp_path / "helios-500.jsonl.gz"
    source = str(real("jobs/helios_15000_jobs.csv"))
    assert main(["helios", "--source", source, "--jobs", "500", "--out", str(rebuilt)]) == 0
    shipped = EXAMPLES / "helios-500.jsonl.gz"
    # The text is compared, because another zlib may pack the same text into other bytes.
    assert gzip.decompress(rebuilt.read_bytes()) == gzip.decompress(shipped.read_bytes())
    assert shipped.stat().st_size < 100_000
