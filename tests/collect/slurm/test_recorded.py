"""The collector on what real clusters answered: costs equal the seconds that sacct says, however much of it was seen."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from streams.collect.allocations import JobHolder, read_allocations, stored_allocations
from streams.collect.collector import Position, SourceUnavailableError
from streams.collect.command import answer_of
from streams.collect.slurm.collector import SlurmCollector, open_collector
from streams.collect.slurm.events import END_TYPES
from tests.collect.recordings import EVIL
from tests.collect.slurm.world import VERSIONS, SlurmWorld, recorded
from tests.collect.world import Log, watched
from tests.harness import meter
from tests.oracle.model import Line, Tables

#: A ms after all that is recorded.
LATER_MS: Final = (4_102_444_800_000, 4_102_444_800_001)
NANO_PER_GPU_S: Final = 1_000_000  # $3.60 an hour
PRICE: Final = Line(
    "prices",
    {
        "id": "p1",
        "source": "test",
        "time_ms": 1_600_000_000_000,
        "sku": "gpu.h100",
        "component": "gpu",
        "usd": "3.60",
        "per": "gpu_hour",
        "effective_ms": 1_600_000_000_000,
        "gpu_type": "H100",
    },
)


def collect(world: SlurmWorld, states: Iterable[int], **options: Any) -> Log:
    """The events of one collector that looks at these states."""
    return watched(world, open_collector(world.options(**options)), states)


def tables_of(log: Log, world: SlurmWorld) -> Tables:
    as_of_ms = world.turn(world.states - 1)
    return meter([PRICE, *(Line(topic, dict(value)) for topic, value in log.events)], as_of_ms=as_of_ms)


def cost_nano(tables: Tables) -> dict[str, int]:
    found: Counter[str] = Counter()
    for key, row in tables.ledger.items():
        assert key.sku == "gpu.h100"
        found[key.job_id] += row.cost_nano
    return dict(found)


def of_sacct(version: str, since_s: int = 0) -> dict[str, int]:
    """Job -> nano-dollars, from the last answer of sacct alone: seconds x GPUs of each record."""
    found: Counter[str] = Counter()
    for job in recorded(version)[-1]["sacct"]["jobs"]:
        times = job["time"]
        # 22.05 repeats the start in the record after a change of size; the submission is when it changed.
        start_s = max(times["start"], times["submission"], since_s)
        gpus = sum(each["count"] for each in job["tres"]["allocated"] if each["name"] == "gpu")
        if times["start"] and times["end"] > start_s:
            found[name_of(job)] += gpus * (times["end"] - start_s) * NANO_PER_GPU_S
    return {name: nano for name, nano in found.items() if nano}


def name_of(job: dict[str, Any]) -> str:
    task, component = (
        value["number"] if isinstance(value, dict) and value["set"] else value
        for value in (job["array"]["task_id"], job["het"]["job_offset"])
    )
    if job["array"]["job_id"]:
        return f"{job['array']['job_id']}_{task}"
    return f"{job['het']['job_id']}+{component}" if job["het"]["job_id"] else str(job["job_id"])


def ids_by_name(version: str) -> dict[str, str]:
    """Name in the scenario -> id of its newest job."""
    return {job["name"]: name_of(job) for job in recorded(version)[-1]["sacct"]["jobs"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seen", ["all", "every seventh", "the last only"])
def test_costs_are_the_seconds_of_sacct_times_the_price(version: str, seen: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version, every=1)
    states = {"all": range(world.states), "every seventh": range(3, world.states, 7), "the last only": []}[
        seen
    ]
    tables = tables_of(collect(world, [*states, world.states - 1]), world)
    assert cost_nano(tables) == of_sacct(version)
    assert not tables.dead


def test_what_sacct_does_not_know_yet_is_taken_from_squeue(tmp_path: Path) -> None:
    """slurmdbd hears of an end before it hears of the array; what squeue does not list waits until it has."""
    world = SlurmWorld(tmp_path, "22.05", every=1)
    last = world.states - 1
    world.changes(
        last, lambda look: [job["array"].update(job_id=0, task_id=None) for job in look["sacct"]["jobs"]]
    )
    log = collect(world, [last])
    assert cost_nano(tables_of(log, world)) == of_sacct("22.05")
    sweep = ids_by_name("22.05")["sweep"]
    world.shows_no_jobs(last, "squeue")
    told = collect(world, [last])
    now_s = recorded("22.05")[-1]["time"]
    assert sweep in {value.get("job_id") for _, value in log.events}
    assert (
        max(value["time_ms"] for _, value in told.events if value["type"] in END_TYPES) <= (now_s - 30) * 1000
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_squeue_and_sacct_make_the_same_events_of_what_both_know(version: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version, every=1)
    seen = {value["id"]: value for _, value in collect(world, range(world.states)).events}
    world.shows_no_jobs(world.states - 1, "squeue")
    events = collect(world, [world.states - 1]).events
    told = {
        value["id"]: value for _, value in events if "job_id" in value
    }  # nodes are there since they were seen
    assert len(told) > 25
    # slurmdbd's database has no such letters, as Debian sets it up.
    evil = {event_id for event_id, value in seen.items() if value.get("experiment") == EVIL}
    assert {event_id: told[event_id] for event_id in told.keys() - evil} == {
        event_id: seen[event_id] for event_id in told.keys() - evil
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_attempts_end_as_slurm_says(version: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version, every=1)
    log = collect(world, range(world.states))
    tables, ids = tables_of(log, world), ids_by_name(version)
    reasons = {
        (value["job_id"], value["attempt"]): value["reason"] for _, value in log.events if "reason" in value
    }
    wanted = {
        ("ok", 1): ("completed", None),
        ("bad", 1): ("failed", "unknown"),
        ("slow", 1): ("failed", "timeout"),
        ("lost", 1): ("failed", "node_failure"),
        ("killed", 1): ("cancelled", None),
        ("again", 1): ("failed", "unknown"),
        ("again", 2): ("completed", None),
        ("low", 1): ("preempted", "preemption"),
        ("low", 2): ("completed", None),
        ("shrinks", 1): ("completed", None),
        ("paused", 1): ("completed", None),
    }
    found = {
        (name, attempt): (tables.attempts[ids[name], attempt].state, reasons.get((ids[name], attempt)))
        for name, attempt in wanted
    }
    assert found == wanted
    assert {attempt for job, attempt in tables.attempts if job == ids["shrinks"]} == {1}
    never = [value for _, value in log.events if value.get("experiment") == "never"]
    assert {value["type"] for value in never} == {"queued", "cancelled"}


def test_names_become_owner_team_and_experiment(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    log = collect(world, range(world.states), teams={"nlp": "language"}, price_fields={"region": "eu"})
    tables, ids = tables_of(log, world), ids_by_name("22.05")
    ok, sweep = tables.jobs[ids["ok"]], tables.jobs[ids["sweep"]]
    assert (ok.owner, ok.team, ok.experiment, sweep.team) == ("root", "vision", "ok", "language")
    assert dict(sweep.labels)["slurm_array_job_id"] == ids["sweep"].split("_")[0]
    started = next(value for _, value in log.events if value["type"] == "started")
    assert started["region"] == "eu"
    assert started["cluster"] == "quick"
    assert EVIL in {job.experiment for job in tables.jobs.values()}


def test_gpus_are_on_their_nodes_while_squeue_shows_them(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    tables, ids = tables_of(collect(world, range(world.states)), world), ids_by_name("22.05")
    nodes = {key.node for key in tables.ledger if key.job_id == ids["sweep"]}
    assert nodes == {"n1", "n2"}


def state_of_second_attempt(version: str, job_id: str) -> int:
    """The first state of the recorded cluster in which a job holds GPUs after one restart."""
    return next(
        at
        for at, look in enumerate(recorded(version))
        for job in look["squeue"]["jobs"]
        if (str(job["job_id"]), job["restart_cnt"]) == (job_id, 1) and job["gres_detail"]
    )


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_allocations_say_who_has_which_gpu(version: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version, every=1)
    ids = ids_by_name(version)
    state = state_of_second_attempt(version, ids["low"])
    collect(world, [state])
    held = read_allocations(world.allocations)
    assert [held.of_gpu("n2", [gpu], *LATER_MS) for gpu in "0123"] == [JobHolder(ids["low"], 2)] * 4


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_a_job_with_all_gpus_of_a_node_has_each_of_them_where_slurm_names_none(
    version: str, tmp_path: Path
) -> None:
    world = SlurmWorld(tmp_path, version, every=1)
    ids = ids_by_name(version)
    state = state_of_second_attempt(version, ids["low"])

    def without_indices(look: dict[str, Any]) -> None:
        for job in look["squeue"]["jobs"]:
            job["gres_detail"] = [re.sub(r"IDX:[\d,-]+", "IDX:N/A", each) for each in job["gres_detail"]]

    world.changes(state, without_indices)
    collect(world, [state])
    held = read_allocations(world.allocations)
    assert [held.of_gpu("n2", [gpu], *LATER_MS) for gpu in "0123"] == [JobHolder(ids["low"], 2)] * 4

    def some(look: dict[str, Any]) -> None:
        for job in look["squeue"]["jobs"]:
            job["gres_detail"] = [each.replace(":4(", ":3(") for each in job["gres_detail"]]

    world.allocations.unlink()
    world.changes(state, some)
    collect(world, [state])
    assert (
        read_allocations(world.allocations).of_gpu("n2", ["0"], *LATER_MS) is None
    )  # which three is not known


def test_allocations_that_are_over_have_the_times_of_slurm(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    collect(world, range(world.states))
    over = [each for each in stored_allocations(world.allocations) if each.until_ms is not None]
    of_slurm = {
        (job["time"]["start"] * 1000, job["time"]["end"] * 1000)
        for look in recorded("22.05")
        for job in look["sacct"]["jobs"]
    }
    assert len(over) > 10
    # The end of a preempted attempt is in sacct a poll later; here polls are a second or two apart.
    assert all(
        any(
            from_ms == each.from_ms and 0 <= (each.until_ms or 0) - until_ms <= 2_000
            for from_ms, until_ms in of_slurm
        )
        for each in over
    )


@pytest.mark.parametrize("place", ["at an end", "while it polls already"])
def test_what_ran_before_since_is_not_counted(place: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    ends = sorted(job["time"]["end"] for job in recorded("22.05")[-1]["sacct"]["jobs"])
    since_s = (
        ends[len(ends) // 2] - 1 if place == "at an end" else recorded("22.05")[world.states // 2]["time"]
    )
    log = collect(world, range(world.states), since=_utc(since_s))
    assert min(value["time_ms"] for _, value in log.events) >= since_s * 1000
    assert cost_nano(tables_of(log, world)) == of_sacct("22.05", since_s)


def first_running(job_id: str) -> int:
    """Return the first look of 22.05 at which the job runs."""
    return next(
        at
        for at, look in enumerate(recorded("22.05"))
        for job in look["squeue"]["jobs"]
        if str(job["job_id"]) == job_id and job["job_state"] == "RUNNING"
    )


def test_what_turns_out_to_have_ended_before_since_ends_there(tmp_path: Path) -> None:
    """Slurm may put the end of a job that it lost with its node back in time."""
    world = SlurmWorld(tmp_path, "22.05", every=1)
    job_id = ids_by_name("22.05")["slow"]
    state = first_running(job_id)
    since_s = recorded("22.05")[state + 3]["time"]

    def ends_early(look: dict[str, Any]) -> None:
        for job in look["squeue"]["jobs"]:
            if str(job["job_id"]) == job_id:
                job.update(end_time=since_s - 1)
        for job in look["sacct"]["jobs"]:
            if str(job["job_id"]) == job_id:
                job["time"].update(end=since_s - 1)

    world.changes(world.states - 1, ends_early)
    log = collect(world, [state + 3, world.states - 1], since=_utc(since_s))
    tables = tables_of(log, world)
    assert tables.attempts[job_id, 1].state == "failed"
    assert job_id not in cost_nano(tables)


def test_the_default_is_since_the_day_of_the_first_poll(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    collector = open_collector(world.options())
    now_ms = world.turn(0)
    *_, last = collector.poll(None, now_ms)
    assert last.position["since_s"] == now_ms // 86_400_000 * 86_400
    *_, last = collector.poll(last.position, now_ms + 86_400_000)
    assert last.position["since_s"] == now_ms // 86_400_000 * 86_400


def test_without_accounting_squeue_alone_gives_the_same_but_for_requeues(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    tables = tables_of(collect(world, range(world.states), use_sacct=False), world)
    found, wanted, ids = cost_nano(tables), of_sacct("22.05"), ids_by_name("22.05")
    requeued = {ids["again"], ids["low"]}
    began_s = recorded("22.05")[0]["time"]
    first_run = {
        name_of(job) for job in recorded("22.05")[-1]["sacct"]["jobs"] if job["time"]["submission"] < began_s
    }
    assert {job: found[job] for job in wanted.keys() - requeued - first_run} == {
        job: wanted[job] for job in wanted.keys() - requeued - first_run
    }
    # Until it is queued again it holds its GPUs: some seconds more than sacct says.
    assert all(wanted[job] < found[job] < wanted[job] + 40 * NANO_PER_GPU_S for job in requeued)
    assert tables.attempts[ids["again"], 1].state == "preempted"


def test_without_accounting_a_job_that_is_gone_ends_at_the_last_look(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    ids = ids_by_name("22.05")
    collector, position = open_collector(world.options(use_sacct=False)), None
    state = next(
        at
        for at, look in enumerate(recorded("22.05"))
        for job in look["squeue"]["jobs"]
        if str(job["job_id"]) == ids["slow"] and job["job_state"] == "RUNNING"
    )
    at_ms = world.turn(state)
    for batch in collector.poll(position, at_ms):
        position = batch.position
    world.shows_no_jobs(state + 1, "squeue")
    events = [
        value
        for batch in collector.poll(position, world.turn(state + 1))
        for _, value in batch.events
        if value["job_id"] == ids["slow"]
    ]
    assert [(value["type"], value["reason"], value["time_ms"]) for value in events] == [
        ("completed", "unknown", at_ms)
    ]


def test_while_sacct_is_away_what_squeue_says_goes_out(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    collector = open_collector(world.options(sacct_command=["/bin/false"]))
    log, positions = Log(), list[Position]()

    def poll() -> None:
        for batch in collector.poll(None, world.turn(5)):
            log.publish(batch.events)
            positions.append(batch.position)

    with pytest.raises(SourceUnavailableError, match=r"/bin/false failed \(1\)"):
        poll()
    assert {position["read_s"] for position in positions} == {0}
    assert {value["type"] for _, value in log.events} >= {"queued", "started", "completed"}


def test_a_job_that_is_gone_without_an_end_is_said(tmp_path: Path) -> None:
    """slurmctld lost it; until an administrator ends it, it runs in sacct and is paid."""
    world = SlurmWorld(tmp_path, "22.05", every=1)
    job_id = ids_by_name("22.05")["slow"]
    state = first_running(job_id)
    for later in range(state + 1, world.states):
        world.shows_no_jobs(later, "squeue")
        world.shows_no_jobs(later, "sacct")
    collector, position, skipped = open_collector(world.options()), None, list[str]()
    for each in (state, state + 1, state + 2, state + 3):
        for batch in collector.poll(position, world.turn(each)):
            position = batch.position
            skipped += [
                said for said in batch.account.said if said.startswith(f"job {job_id} is not in squeue")
            ]
    assert len(skipped) == 2  # not at the first poll without it


def test_sacct_is_asked_for_single_jobs_only_where_attempts_are_not_clear(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, "22.05", every=1)
    options, asked, position = world.options(), [], None

    def ask(command: Any) -> bytes:
        if "--jobs" in command:
            asked.append(command[-1])
        return answer_of(command, timeout_s=60, bytes_at_most=2**26)

    collector = SlurmCollector(options, ask)
    for state in range(world.states):
        for batch in collector.poll(position, world.turn(state)):
            position = batch.position
    ids = ids_by_name("22.05")
    numbers = {number for each in asked for number in each.split(",")}
    assert numbers & set(ids.values()) == {ids["again"], ids["low"]}
    assert len(asked) < 6  # not at each poll


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_the_recordings_hold_what_the_scenario_needs() -> None:
    for version in VERSIONS:
        text = json.dumps(recorded(version))
        for state in ("REQUEUED", "RESIZING", "PREEMPTED", "SUSPENDED", "TIMEOUT", "NODE_FAIL", "CANCELLED"):
            assert state in text or version == "24.11-v0.0.40", (version, state)
