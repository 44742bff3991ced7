"""JSON that is not as Slurm's should be: what can be read is, the rest is counted and said in one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.clock import ManualClock
from streams.collect.collector import CollectedEvent, SourceUnavailableError
from streams.collect.metrics import CollectorMetrics
from streams.collect.runner import CollectorRunner
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import accounted_jobs, queued_jobs
from tests.collect.slurm.world import recorded
from tests.collect.world import Log
from tests.logged import events

LOOK: Final = recorded("22.05")[-1]
NEW_LOOK: Final = recorded("24.11")[-1]


def collected(squeue: bytes, sacct: bytes) -> tuple[list[CollectedEvent], Sequence[str]]:
    collector = SlurmCollector(Options(), lambda command: squeue if command[0] == "squeue" else sacct)
    batches = list(collector.poll(None, int(LOOK["time"]) * 1000))
    return [event for batch in batches for event in batch.events], batches[-1].account.said


def text(document: Any) -> bytes:
    return json.dumps(document).encode()


def with_job(change: Callable[[dict[str, Any]], None], command: str = "squeue") -> tuple[bytes, bytes]:
    """Both answers; in one of them the first job is changed."""
    look = copy.deepcopy(LOOK)
    change(look[command]["jobs"][0])
    return text(look["squeue"]), text(look["sacct"])


WRONG: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "no id": lambda job: job.pop("job_id"),
    "an id that is a text": lambda job: job.update(job_id="1; reboot"),
    "a negative id": lambda job: job.update(job_id=-1),
    "a huge id": lambda job: job.update(job_id=2**63),
    "a state that is a number": lambda job: job.update(job_state=7),
    "a state of tomorrow": lambda job: job.update(job_state="TELEPORTED"),
    "a time of another age": lambda job: job.update(start_time=2**40),
    "a time that is a list": lambda job: job.update(end_time=[1]),
    "resources that are no text": lambda job: job.update(tres_alloc_str={"cpu": 1}),
    "resources that are no list": lambda job: job.update(tres_alloc_str="cpu=\x00"),
    "too many GPUs": lambda job: job.update(
        tres_alloc_str="gres/gpu=99999999", start_time=job["submit_time"]
    ),
    "too many nodes": lambda job: job.update(gres_detail=["gpu:1(IDX:0)"], nodes="n[1-999999999]"),
    "too many indices": lambda job: job.update(gres_detail=["gpu:1(IDX:0-999999999)"]),
    "GPUs that are not counted": lambda job: job.update(
        gres_detail=["gpu:1(IDX:0)"], nodes="n1", tres_alloc_str="cpu=1"
    ),
    "an end before its start": lambda job: job.update(end_time=job["start_time"] - 1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_job_that_cannot_be_read_is_left_out_and_said(wrong: str) -> None:
    good, nothing = collected(text(LOOK["squeue"]), text({"jobs": []}))
    squeue, _ = with_job(WRONG[wrong])
    found, skipped = collected(squeue, text({"jobs": []}))
    assert not nothing
    assert len(skipped) == 1
    assert skipped[0].isprintable()
    assert len(skipped[0]) < 400
    job_id = str(LOOK["squeue"]["jobs"][0]["job_id"])
    assert [event for event in found if event.value["job_id"] != job_id] == [
        event for event in good if event.value["job_id"] != job_id
    ]


@pytest.mark.parametrize(
    "name", ["\x00\x1b[2J\r\n", "a" * 100_000, "\u202e" * 300, "'; DROP TABLE jobs; --", ""]
)
def test_any_name_is_kept_within_its_limit(name: str) -> None:
    found, skipped = collected(
        *with_job(lambda job: job.update(name=name, account=name, tres_req_str="gres/gpu=1"))
    )
    assert not skipped
    log = Log()
    log.publish(found)
    assert not log.refused()


def test_what_slurm_prints_though_it_is_no_json_is_read() -> None:
    """NaN, Infinity, raw control characters and bytes that are no UTF-8."""
    wanted, _ = collected(text(LOOK["squeue"]), text({"jobs": []}))
    for old, new in (
        (b'"billable_tres": 1.0', b'"billable_tres": NaN'),
        (b'"comment": ""', b'"comment": "\x01\xff"'),
    ):
        squeue = text(LOOK["squeue"]).replace(old, new)
        assert new in squeue
        assert collected(squeue, text({"jobs": []})) == (wanted, [])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"jobs": null}',
        b'{"jobs": {}}',
        b'{"jobs": [',
        b'{"jobs": [' + b"[" * 100_000,
        b"\xff" * 99,
        b"[" * 100_000,
    ],
)
def test_what_is_no_document_of_slurm_is_a_source_that_is_away(answer: bytes) -> None:
    for read in (queued_jobs, accounted_jobs):
        with pytest.raises(SourceUnavailableError, match="no JSON of Slurm") as caught:
            read(answer)
        assert len(str(caught.value)) < 400


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_value_in_any_field_stops_nothing(data: st.DataObject) -> None:
    look = copy.deepcopy(data.draw(st.sampled_from([LOOK, NEW_LOOK])))
    for command in ("squeue", "sacct"):
        for job in data.draw(st.lists(st.sampled_from(look[command]["jobs"]), max_size=3)):
            fields = (
                job if command == "squeue" else data.draw(st.sampled_from([job, job["time"], job["tres"]]))
            )
            fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(ANYTHING)
    found, _ = collected(text(look["squeue"]), text(look["sacct"]))
    log = Log()
    log.publish(found)
    assert not log.refused()


def test_what_is_left_out_is_counted_at_each_poll_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    squeue, sacct = with_job(WRONG["a state of tomorrow"])
    collector = SlurmCollector(Options(), lambda command: squeue if command[0] == "squeue" else sacct)
    registry = CollectorRegistry()
    runner = CollectorRunner(
        collector,
        Log(),
        None,
        ManualClock(int(LOOK["time"]) * 1000),
        CollectorMetrics("slurm", registry),
        jitter_ratio=lambda: 0.5,
    )
    runner.run_once()
    runner.run_once()
    malformed = {"collector": "slurm", "class": "not_understood", "reason": "malformed"}
    assert registry.get_sample_value("trainfare_collector_read_total", malformed) == 2
    assert [(said, fields["entries"]) for said, fields in events(caplog.records)] == [
        ("left out what is not understood", 1)
    ]


def test_an_integer_of_more_than_64_bits_spoils_its_own_job_alone() -> None:
    """Beside a NaN, for which the whole answer is read by another parser."""
    look = copy.deepcopy(LOOK)
    jobs = look["squeue"]["jobs"]
    whole, _ = collected(text(look["squeue"]), text(look["sacct"]))
    assert len(jobs) > 1
    jobs[0] |= {"job_id": 2**70, "comment": float("nan")}
    found, _ = collected(text(look["squeue"]), text(look["sacct"]))
    assert 0 < len(found) <= len(whole)
