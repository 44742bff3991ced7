"""What Slurm's accounting says of runs that fail again, through the collector and a replay: one page each, none of an array.

`runs.jsonl.xz` is what Slurm 22.05.8 answered (examples/quickstart/slurm-cluster.sh) after four times `sbatch -J llama --wrap 'sleep 5; exit 1'`,
`sbatch -J again --requeue` of a script that calls `scontrol requeue $SLURM_JOB_ID` three times and then exits with 1, and
`sbatch -J sweep --array=1-4` of which task 3 fails. The other records are those of a job that failed on a real cluster, with other ids, times
and states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.collect.slurm.attempts import by_job, parts_of
from streams.collect.slurm.events import events_of
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import JobRecord, accounted_jobs
from tests.cli.command import trainfare
from tests.collect.recordings import looks_in
from tests.collect.slurm.test_hostile import text
from tests.collect.slurm.world import recorded

ROOT: Final = Path(__file__).parents[2]
T0_S: Final = 1_772_323_200  # 2026-03-01 00:00:00 UTC
PRICE: Final = {
    "id": "p", "source": "t", "time_ms": T0_S * 1000, "sku": "h100", "component": "gpu", "usd": "3.60", "per": "gpu_hour",
    "effective_ms": 0,
}  # fmt: skip


def failed(raw_id: int, minute: float, seconds: int = 40, **changes: Any) -> JobRecord:
    """The job `bad` of the recording, which ends with another exit code than 0."""
    jobs = accounted_jobs(text(recorded("24.11")[-1]["sacct"])).jobs
    bad = next(job for job in jobs if job.name == "bad")
    begin_s = T0_S + round(minute * 60)
    times: dict[str, Any] = {"submit_s": begin_s - 2, "start_s": begin_s, "end_s": begin_s + seconds}
    named = {"name": "llama", "work_dir": "/home/ada/llama", "user": "ada", **changes}
    return bad._replace(raw_id=raw_id, restarts=None, **times, **named)


def completed(raw_id: int, minute: float, **changes: Any) -> JobRecord:
    return failed(raw_id, minute, states=frozenset({"COMPLETED"}), **changes)


def requeued(raw_id: int, minute: float, **changes: Any) -> JobRecord:
    return failed(raw_id, minute, states=frozenset({"REQUEUED"}), **changes)


def lines(records: list[JobRecord]) -> Iterator[str]:
    yield json.dumps({"topic": "prices", "value": PRICE})
    events = [
        keyed.event
        for raw_id, of_job in by_job(records).items()
        for part in parts_of(of_job, {raw_id: len(of_job)})
        for keyed in events_of(part, Options(), 0)
    ]
    events.sort(key=lambda event: int(event.value["time_ms"]))
    for topic, value in events:
        yield json.dumps({"topic": topic.value, "value": value})
    until_ms = int(events[-1].value["time_ms"]) + 20 * 60_000
    last = {"id": "l", "source": "t", "time_ms": until_ms, "job_id": "last", "type": "queued"}
    yield json.dumps({"topic": "jobs", "value": last})


def told(directory: Path, *records: JobRecord) -> list[tuple[str, str, str]]:
    """(rule, severity, sentence) of the alerts that fired."""
    (directory / "events.jsonl").write_text("\n".join(lines([*records])) + "\n")
    done = trainfare("replay", directory / "events.jsonl", "--data", directory / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    store = ClickHouseStore(Embedded(data_dir=directory / "meter"))
    found = store.ask("SELECT rule, severity, summary FROM alerts FINAL WHERE rule != 'owner_coverage'", {})
    rows = [(str(rule), str(severity), str(said)) for rule, severity, said in found.rows()]
    store.close()
    return rows


def test_four_sbatch_of_one_name_that_fail_are_one_page_with_four_ids_and_their_dollars(
    tmp_path: Path,
) -> None:
    ((rule, severity, said),) = told(tmp_path, *(failed(101 + each, 1 + 2.5 * each) for each in range(4)))
    assert (rule, severity) == ("resubmit_loop", "page")
    assert said.startswith(
        "101, 102, 103 and 104 failed one after another in 8 min 10 s (unknown x4), $0.1600 of work lost in all"
    )
    shown = trainfare("job", "102", "--data", tmp_path / "meter", "--format", "json")
    run = json.loads(shown.out)["run"]
    assert [job["job_id"] for job in run["jobs"]] == ["101", "102", "103", "104"]
    about = {name: run[name] for name in ("name", "by", "job_count", "cost_usd", "lost_cost_usd")}
    usd = "0.160000000"
    assert about == {"name": "llama", "by": "name", "job_count": 4, "cost_usd": usd, "lost_cost_usd": usd}
    table = trainfare("job", "104", "--data", tmp_path / "meter").out
    assert "Run llama: 4 jobs, $0.1600, of it $0.1600 lost" in table


def test_a_script_that_requeues_itself_is_one_page(tmp_path: Path) -> None:
    records = [requeued(101, 3 * each) for each in range(3)]
    ((rule, severity, said),) = told(tmp_path, *records, failed(101, 9))
    assert (rule, severity) == ("retry_loop", "page")
    assert said.startswith("101 failed 3 times in 6 min (unknown x3), last attempt 3, $0.12")


def test_a_sweep_array_with_a_failed_task_is_none(tmp_path: Path) -> None:
    tasks = [
        (failed if task == 3 else completed)(201 + task, 4 * (task // 2), array=(201, task))
        for task in range(8)
    ]
    one_by_one = [
        (failed if task < 4 else completed)(301 + task, 3 * task, array=(301, task)) for task in range(8)
    ]
    assert told(tmp_path, *tasks, *one_by_one) == []


def a_day_before(record: JobRecord) -> JobRecord:
    """A replay takes nothing that is later than now, however soon after the recording it is made."""
    times = (record.submit_s, record.start_s, record.end_s)
    submit_s, start_s, end_s = (each - 86_400 for each in times)
    return record._replace(submit_s=submit_s, start_s=start_s, end_s=end_s)


def test_of_a_real_cluster_each_run_that_fails_again_is_one_page(tmp_path: Path) -> None:
    """What Slurm 22.05 answered after four `sbatch` of `llama`, a script that requeued itself, and an array with a failed task."""
    (look,) = looks_in(ROOT / "tests/collect/slurm/runs.jsonl.xz")
    records = [a_day_before(record) for record in accounted_jobs(text(look["sacct"])).jobs]
    assert {record.name for record in records} == {"llama", "again", "sweep"}
    alerts = {rule: (severity, said) for rule, severity, said in told(tmp_path, *records)}
    assert alerts.keys() == {"resubmit_loop", "retry_loop"}
    severity, said = alerts["resubmit_loop"]
    assert severity == "page"
    assert said.startswith(
        "4, 8, 9 and 10 failed one after another in 27 s (unknown x4), $0.0230 of work lost in all"
    )
    severity, said = alerts["retry_loop"]
    assert severity == "page"
    assert said.startswith("3 failed 3 times in 19 s (unknown x3), last attempt 3, $0.0140")
