"""The collector on answers made by hand: when a job holds which GPUs, and what is wrong with answers that are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from streams.collect.collector import CollectedEvent, Position, SourceUnavailableError
from streams.collect.ray.api import ACTORS, GROUPS, JOBS, NODES, TASKS
from streams.collect.ray.collector import open_collector
from streams.collect.ray.options import Options
from streams.errors import TrainfareError, WrongUseError
from tests.collect.ray.world import Dashboard

#: 2026-09-21 12:00:00 UTC
T0_MS: Final = 1_789_992_000_000
A, B = "a" * 56, "b" * 56


def at(seconds: float) -> int:
    return T0_MS + round(seconds * 1000)


def job(
    name: str, start_s: float, end_s: float | None = None, status: str = "", **more: Any
) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "submission_id": name,
        "job_id": "02000000",
        "status": status or ("RUNNING" if end_s is None else "SUCCEEDED"),
        "start_time": at(start_s),
        "end_time": None if end_s is None else at(end_s),
        "metadata": {},
        "entrypoint": "python train.py --password=hunter2",
        "message": "token=hunter2",
        **more,
    }


def actor(start_s: float, end_s: float = 0, gpus: float = 1, **more: Any) -> dict[str, Any]:
    return {
        "jobId": "02000000",
        "state": "DEAD" if end_s else "ALIVE",
        "startTime": at(start_s) if start_s else 0,
        "endTime": at(end_s) if end_s else 0,
        "name": "",
        "address": {"nodeId": A},
        "requiredResources": {"GPU": gpus} if gpus else {},
        **more,
    }


def supervisor(name: str, start_s: float, gpus: float = 0) -> dict[str, Any]:
    return actor(start_s, gpus=gpus, jobId="01000000", name=f"_ray_internal_job_actor_{name}")


def group(
    created_s: float, gpus: Sequence[float], state: str = "CREATED", name: str = "g1"
) -> dict[str, Any]:
    return {
        "placement_group_id": name,
        "creator_job_id": "02000000",
        "state": state,
        "bundles": [
            {"unit_resources": {"GPU": each}, "node_id": node}
            for each, node in zip(gpus, (A, B), strict=False)
        ],
        "stats": {
            "creation_request_received_ns": str((at(created_s) - 250) * 10**6),
            "end_to_end_creation_latency_us": "250000",
        },
    }


def task(start_s: float, end_s: float | None, gpus: float = 1, **more: Any) -> dict[str, Any]:
    return {
        "job_id": "02000000",
        "type": "NORMAL_TASK",
        "node_id": B,
        "required_resources": {"GPU": gpus},
        "start_time_ms": float(at(start_s)),
        "end_time_ms": None if end_s is None else float(at(end_s)),
        **more,
    }


def node(
    name: str, id_: str, start_s: float, end_s: float = 0, gpus: float = 4, type_: str = "H100"
) -> dict[str, Any]:
    return {
        "node_id": id_,
        "node_name": name,
        "state": "DEAD" if end_s else "ALIVE",
        "resources_total": {"GPU": gpus, f"accelerator_type:{type_}": 1.0},
        "start_time_ms": at(start_s),
        "end_time_ms": at(end_s) if end_s else 0,
    }


def listed(*entries: Any, total: int = 0) -> dict[str, Any]:
    found = {"total": total or len(entries), "num_after_truncation": len(entries), "result": list(entries)}
    return {"result": True, "msg": "", "data": {"result": found}}


def answers(
    jobs: Sequence[Any],
    actors: Sequence[Any] = (),
    groups: Sequence[Any] = (),
    tasks: Sequence[Any] = (),
    nodes: Sequence[Any] = (node("n1", A, -3600), node("n2", B, -3600)),
) -> dict[str, Any]:
    return {
        JOBS: list(jobs),
        ACTORS: {"result": True, "data": {"actors": {str(n): each for n, each in enumerate(actors)}}},
        GROUPS: listed(*groups),
        TASKS: listed(*tasks),
        NODES: listed(*nodes),
    }


class Polls:
    """A collector that is polled at chosen times."""

    def __init__(self, dashboard: Dashboard, **options: Any) -> None:
        self._dashboard = dashboard
        given = {"url": dashboard.address, "since": "2026-09-21", "interval_s": 1, **options}
        self._collector = open_collector(Options.model_validate(given))
        self.position: Position | None = None
        self.skipped: list[str] = []

    def at(self, seconds: float, found: Mapping[str, Any]) -> list[CollectedEvent]:
        self._dashboard.answers = dict(found)
        events: list[CollectedEvent] = []
        self.skipped = []
        for batch in self._collector.poll(self.position, at(seconds)):
            events += batch.events
            self.skipped += batch.account.said
            self.position = batch.position
        return events


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    found = Dashboard({})
    yield found
    found.close()


def short(events: Sequence[CollectedEvent]) -> list[tuple[Any, ...]]:
    """Type, seconds after T0, GPUs where they are named."""
    return [
        (
            value["type"],
            (value["time_ms"] - T0_MS) / 1000,
            *([value["gpu_count"]] if "gpu_count" in value else []),
        )
        for _, value in events
    ]


def test_the_entry_points_gpus_are_held_from_when_it_runs_to_the_end_of_the_job(dashboard: Dashboard) -> None:
    found = answers([job("j1", 0, 60, metadata={"user": "ada", "team": 5})], [supervisor("j1", 4.5, 0.5)])
    (queued, started, completed) = events = Polls(dashboard, metadata={"owner": "user"}).at(100, found)
    assert short(events) == [("queued", 0), ("started", 4.5, 0.5), ("completed", 60)]
    assert started.value["nodes"] == {"n1": 0.5}
    assert started.value["gpu_type"] == "H100"
    assert started.value["labels"] == {"ray_job": "j1"}
    assert {event.value["job_id"] for event in events} == {"j1"}
    assert queued.value["owner"] == "ada"
    assert "team" not in queued.value
    assert "hunter2" not in str(events)
    assert "reason" not in completed.value


def test_groups_actors_and_tasks_hold_gpus_at_their_own_times(dashboard: Dashboard) -> None:
    found = answers(
        [job("j1", 0, 60)],
        [
            supervisor("j1", 1),
            actor(10, 50, 2),
            actor(12, 40, 2, placementGroupId="g1"),  # uses the group's
            actor(0, 0, 1),  # waits
            actor(10, 50, 0),
            actor(11, 49, 1, jobId="03000000"),  # another driver's
        ],
        [group(5, [1, 0.5]), group(0, [64], state="PENDING", name="g2")],
        [task(20, 30), task(21, 29, placement_group_id="g1"), task(22, 28, type="ACTOR_TASK")],
    )
    events = Polls(dashboard).at(100, found)
    assert short(events) == [
        ("queued", 0),
        ("started", 5, 1.5),
        ("scaled", 10, 3.5),
        ("scaled", 20, 4.5),
        ("scaled", 30, 3.5),
        ("scaled", 50, 1.5),
        ("completed", 60),
    ]
    assert events[3].value["nodes"] == {"n1": 3, "n2": 1.5}


def asked(events: Sequence[CollectedEvent]) -> list[tuple[float, int]]:
    """When events say how many GPUs a job asks for, and how many."""
    return [
        ((value["time_ms"] - T0_MS) / 1000, value["gpus_requested"])
        for _, value in events
        if "gpus_requested" in value
    ]


@pytest.mark.parametrize(
    ("actors", "groups", "tasks", "gpus"),
    [
        ([], [group(5, [2, 2])], [], [(65, 4)]),
        ([], [group(5, [2]), group(6, [4, 8], state="PENDING", name="g2")], [], [(65, 14)]),
        ([], [group(5, [2]), group(70, [4], state="PENDING", name="g2")], [], [(65, 2)]),
        ([], [group(5, [2]), group(40, [4], state="REMOVED", name="g2")], [], [(65, 6)]),
        ([actor(10, gpus=4, placementGroupId="g1")], [group(5, [4])], [], [(65, 4)]),
        ([actor(90, gpus=4)], [group(5, [4])], [], [(65, 4)]),
        ([actor(10, gpus=4)], [group(5, [4])], [], []),
        ([], [group(5, [4])], [task(20, 30)], []),
        ([], [group(5, [0.5])], [], []),
        ([actor(10, gpus=4)], [], [], []),
    ],
)
def test_what_placement_groups_ask_for_is_said_a_minute_after_the_start(
    dashboard: Dashboard,
    actors: list[dict[str, Any]],
    groups: list[dict[str, Any]],
    tasks: list[dict[str, Any]],
    gpus: list[tuple[float, int]],
) -> None:
    """The groups that a job begins with are asked for one after the other; those that wait are as much of its start."""
    found = answers([job("j1", 0, 300)], [supervisor("j1", 1), *actors], groups, tasks)
    often, seldom = Polls(dashboard), Polls(dashboard)
    once = seldom.at(400, found)
    assert asked(once) == gpus
    running = answers([job("j1", 0)], [supervisor("j1", 1), *actors], groups, tasks)
    events = [event for now_s in (20, 50, 74, 75, 76, 90, 200) for event in often.at(now_s, running)]
    assert asked(events) == gpus
    said = {(value["type"], value["id"]) for _, value in once if "gpus_requested" in value}
    assert said <= {("updated", "j1.1.updated.1789992065000.requested")}


def test_the_entry_points_gpus_are_asked_for_too(dashboard: Dashboard) -> None:
    found = answers([job("j1", 0)], [supervisor("j1", 1, 2)], [group(5, [64], state="PENDING")])
    assert asked(Polls(dashboard).at(400, found)) == [(61, 66)]
    assert asked(Polls(dashboard, gpu_scope="cluster").at(400, found)) == []


def test_a_job_that_is_over_before_asks_for_nothing(dashboard: Dashboard) -> None:
    found = answers([job("j1", 0, 60)], [supervisor("j1", 1)], [group(5, [2, 2])])
    assert asked(Polls(dashboard).at(400, found)) == []


def test_a_group_that_is_gone_ends_when_a_poll_sees_it(dashboard: Dashboard) -> None:
    polls = Polls(dashboard)
    head = [supervisor("j1", 1)]
    polls.at(20, answers([job("j1", 0)], head, [group(5, [2])]))
    assert not polls.at(33.7, answers([job("j1", 0)], head, [group(5, [2], "REMOVED")]))
    events = polls.at(60, answers([job("j1", 0)], head, [group(5, [2], "REMOVED")]))
    assert short(events) == [("scaled", 33, 0)]
    assert events[0].value["nodes"] == {}


@pytest.mark.parametrize(("seen_s", "scaled"), [(28, []), (20, [("scaled", 20, 0)])])
def test_a_group_that_goes_with_its_job_is_held_to_the_end(
    dashboard: Dashboard, seen_s: float, scaled: list[Any]
) -> None:
    """The driver's groups are gone a moment before Ray writes down that the job has ended."""
    polls, head = Polls(dashboard), [supervisor("j1", 1)]
    gone = [group(5, [2], "REMOVED")]
    polls.at(16, answers([job("j1", 0)], head, [group(5, [2])]))
    polls.at(seen_s, answers([job("j1", 0)], head, gone))
    ended = answers([job("j1", 0, 30)], head, gone)
    events = [event for now_s in (39, 40, 50) for event in polls.at(now_s, ended)]
    assert short(events) == [*scaled, ("completed", 30)]


def test_what_ray_says_late_is_told_from_then_on(dashboard: Dashboard) -> None:
    polls, head = Polls(dashboard), [supervisor("j1", 1, 1)]
    polls.at(30, answers([job("j1", 0)], head))
    events = polls.at(45, answers([job("j1", 0)], [*head, actor(15, gpus=2)]))
    assert short(events) == [("scaled", 20.001, 3)]
    assert polls.skipped == ["job j1: Ray showed late which GPUs it held; see dashboard_delay_s"]
    assert not polls.at(60, answers([job("j1", 0)], [*head, actor(15, gpus=2)]))


def test_however_often_it_is_polled_the_events_are_the_same(dashboard: Dashboard) -> None:
    def look(now_s: float) -> dict[str, Any]:
        """What Ray says at a time of a job with an actor from 12 to 37 and a task from 20 to 25."""
        actors = [supervisor("j1", 2.25, 1)] if now_s >= 2.25 else [supervisor("j1", 0, 1)]
        if now_s >= 12:
            actors.append(actor(12, 37 if now_s >= 37 else 0, 2))
        tasks = [task(20, 25 if now_s >= 25 else None)] if now_s >= 20 else []
        return answers([job("j1", 0, 60 if now_s >= 60 else None)], actors, [], tasks)

    often, seldom = Polls(dashboard), Polls(dashboard)
    all_often = [event for now_s in range(1, 100) for event in often.at(now_s, look(now_s))]
    all_seldom = [event for now_s in (23, 99) for event in seldom.at(now_s, look(now_s))]
    assert all_often == all_seldom
    assert len(all_often) == 7


def test_submissions_with_one_name_are_attempts_of_one_job(dashboard: Dashboard) -> None:
    named: dict[str, Any] = {"metadata": {"trainfare.job_id": "sweep-1"}}
    first = job("j1", 0, 20, "FAILED", error_type="JOB_ENTRYPOINT_COMMAND_ERROR", **named)
    second = job("j2", 30, 50, job_id="03000000", **named)
    heads = [supervisor("j1", 1, 1), supervisor("j2", 31, 1)]
    polls = Polls(dashboard, job_id_prefix="a/")
    events = polls.at(40, answers([first], heads[:1])) + polls.at(100, answers([second, first], heads))
    ends = [
        (value["job_id"], value["attempt"], value["type"]) for _, value in events if value["type"] != "queued"
    ]
    assert ends == [
        ("a/sweep-1", 1, "started"),
        ("a/sweep-1", 1, "failed"),
        ("a/sweep-1", 2, "started"),
        ("a/sweep-1", 2, "completed"),
    ]
    third = job("j3", 110, 120, job_id="04000000", metadata={**named["metadata"], "trainfare.attempt": "7"})
    fourth = job("j4", 125, 130, job_id="05000000", **named)
    events = polls.at(200, answers([fourth, third], [supervisor("j3", 111, 1), supervisor("j4", 126, 1)]))
    assert {(value["id"].split(".")[1]) for _, value in events} == {"7", "8"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("RUNTIME_ENV_SETUP_FAILURE", "user_error"),
        ("JOB_SUPERVISOR_ACTOR_DIED", "node_failure"),
        ("JOB_ENTRYPOINT_COMMAND_ERROR", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_failure_has_a_reason(dashboard: Dashboard, error: str | None, reason: str) -> None:
    found = answers([job("j1", 0, 9, "FAILED", error_type=error, job_id=None)], [supervisor("j1", 0, 1)])
    events = Polls(dashboard).at(60, found)
    assert short(events) == [("queued", 0), ("failed", 9)]  # it never ran
    assert events[-1].value["reason"] == reason


def test_a_stopped_job_is_cancelled_and_one_without_gpus_no_event(dashboard: Dashboard) -> None:
    found = answers([job("j1", 0, 9, "STOPPED")], [supervisor("j1", 2)])
    assert Polls(dashboard).at(60, found) == []
    events = Polls(dashboard, include_cpu_only=True).at(60, found)
    assert short(events) == [("queued", 0), ("started", 2, 0), ("cancelled", 9)]


def test_drivers_that_were_not_submitted_are_jobs(dashboard: Dashboard) -> None:
    by_hand = job("", 0, 30, type="DRIVER", submission_id=None)
    found = answers([by_hand], [actor(5, 20)])
    events = Polls(dashboard).at(60, found)
    assert short(events) == [("started", 5, 1), ("scaled", 20, 0), ("completed", 30)]
    assert events[0].value["job_id"] == f"02000000-{T0_MS}"
    assert Polls(dashboard, include_drivers=False).at(60, found) == []


def test_a_cluster_for_one_job_gives_it_all_its_gpus(dashboard: Dashboard) -> None:
    """Nodes that join later are paid from then on, whatever the job does with them."""
    nodes = [
        node("n1", A, -60),
        node("n2", B, 20, 40, gpus=2, type_="A100"),
        node("head", "c" * 56, -60, gpus=0),
    ]
    found = answers([job("j1", 0, 60)], [supervisor("j1", 3)], [group(5, [1])], nodes=nodes)
    events = Polls(dashboard, gpu_scope="cluster", gpu_types={"H100": "H100-80"}).at(100, found)
    assert short(events)[1:] == [("started", 3, 4), ("scaled", 20, 6), ("scaled", 40, 4), ("completed", 60)]
    assert [event.value.get("gpu_type") for event in events] == [None, "H100-80", None, "H100-80", None]


def test_what_ran_before_since_is_not_told_and_what_runs_then_begins_there(dashboard: Dashboard) -> None:
    old = job("old", -900, -600)
    head = [supervisor("j1", -890, 1), supervisor("old", -899, 1)]
    found = answers(
        [old, job("j1", -900, 30, job_id="03000000")], [*head, actor(-880, -700, 3, jobId="03000000")]
    )
    events = Polls(dashboard, since="2026-09-21T12:00:00Z").at(60, found)
    assert short(events) == [("started", 0, 1), ("completed", 30)]


def test_a_job_that_ray_has_forgotten_ends_where_it_was_last_listed(dashboard: Dashboard) -> None:
    polls = Polls(dashboard)
    polls.at(30.5, answers([job("j1", 0)], [supervisor("j1", 1, 1)]))
    assert polls.at(60, answers([])) == []
    events = polls.at(95, answers([]))
    assert short(events) == [("failed", 30)]
    assert events[0].value["reason"] == "node_failure"
    assert polls.at(200, answers([])) == []


def test_nodes_come_and_go_at_rays_times(dashboard: Dashboard) -> None:
    polls = Polls(dashboard, include_nodes=True, price_fields={"cluster": "ray-a"})
    nodes = [node("n1", A, -3600), node("n2", B, 5, gpus=0.5), node("n3", "c" * 56, 0, gpus=0)]
    first = polls.at(30, answers([], nodes=nodes))
    assert short(first) == [("provisioned", -3600, 4), ("provisioned", 5, 0.5)]
    assert first[0].value["cluster"] == "ray-a"
    again = [node("n1", A, -3600, 50), node("n1", "d" * 56, 45), *nodes[1:]]
    assert short(polls.at(90, answers([], nodes=again))) == [("terminated", 45), ("provisioned", 45, 4)]
    twice = [*again, node("n2", "e" * 56, 60)]
    assert polls.at(120, answers([], nodes=twice)) == []
    assert polls.skipped == ["nodes: several are named n2; name each with ray start --node-name"]


def test_what_cannot_be_read_is_left_out_and_said(dashboard: Dashboard) -> None:
    wrong = [
        job("j\x1b[31m", 0, 60, "EXPLODED"),
        job("j2", 10, 5),
        {**job("j3", 0), "start_time": "now"},
        {**job("j4", 0, 9), "end_time": None},
        job("j5", 0, 60, metadata={"trainfare.job_id": "x" * 300}),
        job("j6", 0, 60, metadata={"trainfare.attempt": "many"}),
        job("ok", 0, 60, job_id=None),
    ]
    heads = [supervisor("ok", 1, 1), supervisor("j2", 1, 1), actor(3, gpus=-1), {"state": 5}]
    found = answers(wrong, heads, tasks=[task(5, 6, gpus=1e9)])
    found[TASKS]["data"]["result"]["total"] = 20_000
    polls = Polls(dashboard)
    events = polls.at(100, found)
    assert {value["job_id"] for _, value in events} == {"ok"}
    assert len(polls.skipped) == 10
    assert "tasks: Ray lists only 1 of 20000" in polls.skipped
    assert "\x1b" not in "".join(polls.skipped)


@pytest.mark.parametrize("path", [JOBS, ACTORS, GROUPS, TASKS, NODES])
def test_an_answer_of_another_form_is_no_answer(dashboard: Dashboard, path: str) -> None:
    with pytest.raises(SourceUnavailableError, match="no JSON of Ray"):
        Polls(dashboard).at(60, {**answers([]), path: {"result": False, "data": 5}})


def test_a_dashboard_without_the_api_or_the_token_is_named(dashboard: Dashboard, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="/api/jobs/ answered 404"):
        Polls(dashboard).at(60, {})
    dashboard.token = "s3cret"
    with pytest.raises(SourceUnavailableError, match="answered 401"):
        Polls(dashboard).at(60, answers([]))
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    assert Polls(dashboard, token_file=token).at(60, answers([])) == []
    token.write_text("two words")
    with pytest.raises(WrongUseError, match="holds no token"):
        Polls(dashboard, token_file=token)
    with pytest.raises(WrongUseError, match="No such file"):
        Polls(dashboard, token_file=tmp_path / "absent")


def test_an_answer_that_is_too_large_is_refused(dashboard: Dashboard) -> None:
    large = answers([job(f"j{n}", 0, 60, message="x" * 4096) for n in range(300)])
    with pytest.raises(SourceUnavailableError, match="more than 1048576 bytes; see max_response_mib"):
        Polls(dashboard, max_response_mib=1).at(60, large)


def test_a_position_of_something_else_is_refused(dashboard: Dashboard) -> None:
    polls = Polls(dashboard)
    polls.position = {"at_ms": 5}
    with pytest.raises(TrainfareError, match="not one of ray's"):
        polls.at(60, answers([]))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"url": "ftp://x"}, "expected an address"),
        ({"url": "http://ada:pw@x:8265"}, "without a user"),
        ({"price_fields": {"colour": "red"}}, "no price field"),
        ({"metadata": {"colour": "red"}}, "none of owner"),
        ({"gpu_scope": "all"}, "cluster"),
    ],
)
def test_options_are_checked(option: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Options.model_validate(option)
