"""The collector on runs made by hand: lives, resumes, metrics, costs written back, and what is wrong with answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson
import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.collect.collector import CollectedEvent, Position, SourceUnavailableError
from streams.collect.mlflow.collector import open_collector
from streams.collect.mlflow.options import Options
from streams.errors import TrainfareError
from tests.collect.mlflow.server import MlflowServer

#: 2026-09-21 12:00:00 UTC
T0_MS: Final = 1_789_992_000_000


def at(seconds: float) -> int:
    return T0_MS + round(seconds * 1000)


def run(
    name: str,
    start_s: float,
    end_s: float | None = None,
    status: str = "",
    tags: dict[str, str] | None = None,
    metrics: Sequence[dict[str, Any]] = (),
    **info: Any,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run_id": name,
        "run_uuid": name,
        "run_name": f"the {name}",
        "experiment_id": "1",
        "user_id": "ada",
        "status": status or ("RUNNING" if end_s is None else "FINISHED"),
        "start_time": at(start_s),
        "lifecycle_stage": "active",
        **info,
    }
    if end_s is not None:
        found["end_time"] = at(end_s)
    tags = {"trainfare.gpus": "2", **(tags or {})}
    data = {
        "metrics": list(metrics),
        "params": [{"key": "password", "value": "hunter2"}],
        "tags": [{"key": key, "value": value} for key, value in tags.items()],
    }
    return {"info": found, "data": data}


def metric(key: str, value: Any, at_s: float, step: int = 0) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": at(at_s), "step": step}


def cost(job_id: str, usd: str, rate: str = "7.200000000", lost: str = "0") -> dict[str, Any]:
    return {
        "job_id": job_id,
        "cost_usd": usd,
        "usd_per_hour_now": rate,
        "lost_cost_usd": lost,
        "owner": "ada",
    }


class Polls:
    """A collector that is polled at chosen times."""

    def __init__(self, server: MlflowServer, **options: Any) -> None:
        given = {"url": server.address, "since": "2026-09-21", "interval_s": 1, **options}
        self._server = server
        self._collector = open_collector(Options.model_validate(given))
        self.position: Position | None = None
        self.skipped: list[str] = []
        self.read = 0  # entries, by the account of the last poll

    def at(self, seconds: float, *runs: dict[str, Any]) -> list[CollectedEvent]:
        self._server.runs = list(runs)
        events: list[CollectedEvent] = []
        self.skipped, self.read = [], 0
        for batch in self._collector.poll(self.position, at(seconds)):
            events += batch.events
            self.skipped += batch.account.said
            self.read += batch.account.read
            self.position = batch.position
        for topic, value in events:
            assert not isinstance(decode(topic, orjson.dumps(value), (), 2**53), Invalid)
        return events


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    found = MlflowServer()
    found.experiments = [{"experiment_id": "1", "name": "lr-sweep"}, {"experiment_id": "2", "name": "other"}]
    yield found
    found.close()


def short(events: Sequence[CollectedEvent]) -> list[tuple[Any, ...]]:
    return [(value["type"], value["attempt"], (value["time_ms"] - T0_MS) / 1000) for _, value in events]


def test_a_run_is_a_job_with_what_its_tags_say(server: MlflowServer) -> None:
    tags = {
        "mlflow.user": "grace",
        "mlflow.parentRunId": "p1",
        "mlflow.source.git.repoURL": "https://token:hunter2@host/x",
        "trainfare.gpu_type": "H100",
        "trainfare.team": "vision",
        "trainfare.gpus": "0.5",
    }
    events = Polls(server, price_fields={"cluster": "c1"}, job_id_prefix="ml/").at(
        60, run("r1", 0, 30, tags=tags)
    )
    assert short(events) == [("started", 1, 0), ("completed", 1, 30)]
    started = dict(events[0].value)
    assert started == started | {
        "job_id": "ml/r1",
        "gpu_count": 0.5,
        "gpu_type": "H100",
        "owner": "grace",
        "team": "vision",
        "experiment": "lr-sweep",
        "cluster": "c1",
        "labels": {"mlflow_run": "r1", "mlflow_run_name": "the r1", "mlflow_parent": "p1"},
    }
    assert "hunter2" not in str(events)


@pytest.mark.parametrize(
    ("status", "type_", "reason"),
    [("FINISHED", "completed", None), ("FAILED", "failed", "unknown"), ("KILLED", "cancelled", None)],
)
def test_runs_end_as_mlflow_says(server: MlflowServer, status: str, type_: str, reason: str | None) -> None:
    polls = Polls(server)
    assert short(polls.at(10, run("r1", 0))) == [("started", 1, 0)]
    (end,) = polls.at(60, run("r1", 0, 30.25, status))
    assert (end.value["type"], end.value["time_ms"], end.value.get("reason")) == (type_, at(30.25), reason)
    assert polls.at(70, run("r1", 0, 30.25, status)) == []


def test_a_resumed_run_is_the_next_attempt_from_the_poll_that_sees_it(server: MlflowServer) -> None:
    polls = Polls(server)
    polls.at(40, run("r1", 0, 30, "FAILED"))
    assert short(polls.at(100.7, run("r1", 0, 30, "RUNNING"))) == [("resumed", 2, 100)]
    assert polls.at(110, run("r1", 0, 30, "RUNNING")) == []
    assert short(polls.at(200, run("r1", 0, 150))) == [("completed", 2, 150)]
    # Resumed again, and over before anybody looked: paid from the poll before.
    assert short(polls.at(300, run("r1", 0, 250, "FAILED"))) == [("resumed", 3, 200), ("failed", 3, 250)]


def test_a_run_that_was_resumed_before_it_was_seen_has_an_end_in_between(server: MlflowServer) -> None:
    events = Polls(server).at(100, run("r1", 0, 30, "RUNNING"))
    assert short(events) == [("started", 1, 0), ("preempted", 1, 30), ("resumed", 2, 100)]


def test_metrics_are_quality_and_progress(server: MlflowServer) -> None:
    metrics = [
        metric("loss", 0.5, 20, 200),
        metric("epoch", 3, 19, 150),
        metric("bad", "NaN", 21, 900),
        metric("worse", "Infinity", 21, 900),
        metric("system/gpu_0_utilization", 50.0, 22, 999),
        metric("cost_usd", 1.5, 23, 999),
        metric("of the future", 1.0, 9_999, 5),
        metric("x" * 300, 1.0, 20, 5),
    ]
    polls = Polls(server)
    (_, beat) = polls.at(30, run("r1", 0, metrics=metrics))
    assert (beat.value["type"], beat.value["time_ms"]) == ("heartbeat", at(20))
    assert beat.value["quality"] == {"loss": 0.5}
    assert beat.value["progress"] == {"epoch": 3.0, "step": 200}
    assert polls.at(45, run("r1", 0, metrics=metrics)) == []
    later = [metric("loss", 0.25, 50, 300), *metrics[1:]]
    events = polls.at(60, run("r1", 0, 55, metrics=later))
    assert short(events) == [("updated", 1, 50), ("completed", 1, 55)]
    only = Polls(server, quality=["val_*"], progress=[])
    assert short(only.at(60, run("r1", 0, metrics=metrics))) == [("started", 1, 0)]


def test_more_metrics_than_an_event_holds(server: MlflowServer) -> None:
    metrics = [metric(f"m{n:03}", n, 5, n) for n in range(300)]
    (_, beat) = Polls(server).at(30, run("r1", 0, metrics=metrics))
    assert list(beat.value["quality"]) == [f"m{n:03}" for n in range(64)]
    assert beat.value["progress"] == {"step": 299}


def test_a_run_of_a_job_adds_to_that_job_and_has_no_life_of_its_own(server: MlflowServer) -> None:
    tags = {"trainfare.job_id": "17_3", "trainfare.attempt": "2"}
    polls = Polls(server, job_id_prefix="ml/")
    assert polls.at(10, run("r1", 0, tags=tags)) == []
    (beat,) = polls.at(20, run("r1", 0, tags=tags, metrics=[metric("loss", 1, 15, 7)]))
    assert beat.value == {
        "experiment": "lr-sweep",
        "quality": {"loss": 1.0},
        "progress": {"step": 7},
        "id": beat.value["id"],
        "source": "mlflow",
        "time_ms": at(15),
        "job_id": "17_3",
        "attempt": 2,
        "type": "heartbeat",
    }
    assert polls.at(60, run("r1", 0, 30, tags=tags, metrics=[metric("loss", 1, 15, 7)])) == []


def test_runs_that_name_no_job_may_be_left_out(server: MlflowServer) -> None:
    assert Polls(server, standalone_runs=False).at(60, run("r1", 0)) == []
    assert short(
        Polls(server, experiments=["oth*"]).at(60, run("r1", 0), run("r2", 5, experiment_id="2"))
    ) == [("started", 1, 5)]


def test_tags_that_change_are_an_update(server: MlflowServer) -> None:
    polls = Polls(server)
    polls.at(10, run("r1", 0))
    (update,) = polls.at(20.5, run("r1", 0, tags={"trainfare.gpus": "4"}))
    assert (update.value["type"], update.value["time_ms"], update.value["gpu_count"]) == (
        "updated",
        at(20),
        4,
    )
    assert polls.at(30, run("r1", 0, tags={"trainfare.gpus": "4"})) == []


def test_a_run_that_is_deleted_while_it_runs_is_cancelled(server: MlflowServer) -> None:
    polls = Polls(server)
    polls.at(10, run("r1", 0))
    assert short(polls.at(20, run("r1", 0, lifecycle_stage="deleted"))) == [("cancelled", 1, 20)]
    assert polls.at(30, run("r1", 0, lifecycle_stage="deleted")) == []


def test_an_end_by_a_clock_that_is_far_behind_is_seen(server: MlflowServer) -> None:
    """It is in neither answer: then the run is asked for by itself."""
    polls = Polls(server)
    polls.at(9_000, run("r1", 8_000))
    assert short(polls.at(9_015, run("r1", 8_000, 4_000))) == [("completed", 1, 8_000)]
    assert any("runs/get?run_id=r1" in path for path in server.asked)


def test_what_ended_before_since_is_not_counted(server: MlflowServer) -> None:
    polls = Polls(server, since="2026-09-21T12:00:00Z")
    events = polls.at(60, run("old", -900, -600), run("r1", -900), run("r2", -900, 30))
    assert sorted(short(events)) == [("completed", 1, 30), ("started", 1, 0), ("started", 1, 0)]


def test_all_pages_are_read(server: MlflowServer) -> None:
    server.page_size = 2
    server.experiments = [{"experiment_id": str(n), "name": f"e{n}"} for n in range(5)]
    runs = [run(f"r{n}", n, experiment_id=str(n)) for n in range(5)]
    assert len(Polls(server).at(60, *runs)) == 5


def test_what_cannot_be_read_is_left_out_and_said(server: MlflowServer) -> None:
    wrong = [
        run("r\x1b[31m", 0, 10, status="RUNNING", start_time=-5),
        run("r2", 0, 60, status="EXPLODED"),
        run("r3", 0, tags={"trainfare.gpus": "many"}),
        run("r4", 0, tags={"trainfare.gpus": "inf"}),
        run("r5", 0, tags={"trainfare.attempt": "0"}),
        run("r6", 0, tags={"trainfare.job_id": "x" * 300}),
        run("r7", 0, tags={"trainfare.purchase": "cheap"}),
        run("ok", 0, tags={"owner": "nobody", "trainfare.purchase": "spot"}),
    ]
    polls = Polls(server)
    events = polls.at(100, *wrong)
    assert {value["job_id"] for _, value in events} == {"ok"}
    assert (events[0].value["owner"], events[0].value["purchase"]) == ("ada", "spot")
    assert len(set(polls.skipped)) == 7
    # The first is RUNNING and has an end time, so both searches of a poll return it.
    assert polls.read == len(wrong)
    assert "\x1b" not in "".join(polls.skipped)


def test_a_run_that_cannot_be_read_any_more_counts_once(server: MlflowServer) -> None:
    polls = Polls(server)
    assert len(polls.at(100, run("r1", 0))) == 1
    # The search returns it, and it is asked for by its id as well, as it went on before.
    assert polls.at(200, run("r1", 0, start_time=-5)) == []
    assert (polls.read, len(polls.skipped)) == (1, 1)


def test_costs_are_written_back_when_they_change(server: MlflowServer) -> None:
    server.costs = {"r1": cost("r1", "1.500000000", lost="0.25"), "17": cost("17", "40")}
    polls = Polls(server, trainfare_url=server.address, cost_interval_s=60)
    first, second = (
        run("r1", 0, metrics=[metric("loss", 1, 5, 120)]),
        run("r2", 0, tags={"trainfare.job_id": "17"}),
    )
    polls.at(10, first, second)
    assert server.written == [
        {
            "run_id": "r1",
            "metrics": [
                {"key": "cost_usd", "value": 1.5, "timestamp": at(10), "step": 120},
                {"key": "usd_per_hour", "value": 7.2, "timestamp": at(10), "step": 120},
                {"key": "lost_usd", "value": 0.25, "timestamp": at(10), "step": 120},
            ],
        },
        {"run_id": "r2", "metrics": server.written[1]["metrics"]},
    ]
    server.costs["r1"]["cost_usd"] = "1.75"
    polls.at(20, first, second)
    assert len(server.written) == 2, "not before 60 s are over"
    polls.at(70, first, second)
    assert server.written[2:] == [
        {"run_id": "r1", "metrics": [{"key": "cost_usd", "value": 1.75, "timestamp": at(70), "step": 120}]}
    ]
    Polls(server, trainfare_url=server.address).at(80, first, second)
    assert len(server.written) == 3, "nor again by a collector that knows nothing"


def test_costs_survive_a_resume_that_counts_steps_down(server: MlflowServer) -> None:
    """A run that ended at step 120 goes on from its checkpoint at 100: the newest cost is still the newest to MLflow."""
    server.costs = {"r1": cost("r1", "3")}
    polls = Polls(server, trainfare_url=server.address, cost_interval_s=1)
    r1 = run("r1", 0, 30, "FAILED", metrics=[metric("loss", 1, 5, 120)])
    polls.at(40, r1)
    r1["info"]["status"] = "RUNNING"
    r1["data"]["metrics"][0] = metric("loss", 0.9, 50, 100)
    server.costs["r1"]["cost_usd"] = "4.5"
    polls.at(60, r1)
    assert server.written[-1]["metrics"] == [
        {"key": "cost_usd", "value": 4.5, "timestamp": at(60), "step": 120}
    ]
    shown = {each["key"]: each["value"] for each in r1["data"]["metrics"]}
    assert shown == {"loss": 0.9, "cost_usd": 4.5, "usd_per_hour": 7.2, "lost_usd": 0.0}


def test_jobs_that_the_meter_does_not_list_are_asked_for(server: MlflowServer) -> None:
    server.costs, server.listed = {"a/b c": cost("a/b c", "2")}, set()
    polls = Polls(server, trainfare_url=server.address)
    polls.at(10, run("r1", 0, tags={"trainfare.job_id": "a/b c"}), run("r2", 0))
    assert [each["run_id"] for each in server.written] == ["r1"]
    assert "/api/v1/jobs/a%2Fb%20c" in server.asked
    assert polls.skipped == []


def test_without_the_meter_runs_are_read_all_the_same(server: MlflowServer) -> None:
    server.meter_is_away = True
    polls = Polls(server, trainfare_url=server.address)
    assert short(polls.at(10, run("r1", 0))) == [("started", 1, 0)]
    (said,) = polls.skipped
    assert said.startswith("costs are not written: http://127.0.0.1")
    assert "answered 503" in said


def test_a_dry_run_writes_nothing(server: MlflowServer) -> None:
    options = {"url": server.address, "trainfare_url": server.address, "since": "2026-09-21"}
    given = Options.model_validate(options).without_files()
    server.costs, server.runs = {"r1": cost("r1", "2")}, [run("r1", 0)]
    assert list(open_collector(given).poll(None, at(60)))
    assert server.written == []


@pytest.mark.parametrize("answer", ["5", '{"experiments": 5}', '{"experiments": [{}]}'])
def test_an_answer_of_another_form_is_no_answer(
    server: MlflowServer, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "post", lambda *_: (200, orjson.loads(answer)))
    with pytest.raises(SourceUnavailableError, match="no JSON of MLflow"):
        Polls(server).at(60)


def test_a_position_of_something_else_is_refused(server: MlflowServer) -> None:
    polls = Polls(server)
    polls.position = {"at_ms": 5}
    with pytest.raises(TrainfareError, match="not one of mlflow's"):
        polls.at(60)
