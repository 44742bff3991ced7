"""Stories in which one cause shows itself again, replayed whole: how many messages somebody gets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from loadtest.labelled.judging import judged

T0_MS = 1_780_300_800_000  # 2026-06-01 08:00:00 UTC
MINUTE_MS = 60_000
Event = tuple[int, str, dict[str, Any]]
PER_GPU_HOUR = {"component": "gpu", "per": "gpu_hour", "effective_ms": 0}
PRICE = {"sku": "h100", "gpu_type": "H100", "usd": "2.49", **PER_GPU_HOUR}


class Story:
    """Events by the minute."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self.alerts: list[Any] = []  # that the replay gave
        self.put("prices", 0, **PRICE)

    def put(self, topic: str, minute: float, **value: Any) -> None:
        at_ms = T0_MS + round(minute * MINUTE_MS)
        named = {"id": f"{len(self._events)}", "source": "story", "time_ms": at_ms}
        self._events.append((at_ms, topic, {**named, **value}))

    def start(self, minute: float, job_id: str, node: str, **about: Any) -> None:
        held = {"gpu_count": 8, "nodes": {node: 8}, "gpu_type": "H100", "cluster": "c1", "team": "vision"}
        self.put("jobs", minute, job_id=job_id, type="started", **({"owner": "ada"} | held | about))

    def lives(self, job_id: str, minutes: range, node: str, use: float | None) -> None:
        """It is heard of each two minutes; its GPUs do so much, or are not sampled."""
        for minute in minutes[::2]:
            self.put("jobs", minute + 1, job_id=job_id, type="heartbeat")
            if use is not None:
                gpus = [str(gpu) for gpu in range(8)]
                sample = {"node": node, "interval_ms": 2 * MINUTE_MS, "gpus": gpus, "util_ratio": [use] * 8}
                self.put("gpu", minute + 2, job_id=job_id, **sample)

    def told(self, directory: Path) -> list[tuple[str, str, int]]:
        """(rule, subject, minute) of each message."""
        with judged(sorted(self._events, key=lambda each: each[0]), directory / "log.jsonl.gz") as run:
            self.alerts = [*run.backtest.alerts]
            return [*_sent(self.alerts)]


def _sent(alerts: Iterable[Any]) -> Iterable[tuple[str, str, int]]:
    for each in alerts:
        if each.messages:
            yield each.rule, each.subject, (each.started_ms - T0_MS) // MINUTE_MS


@pytest.mark.parametrize("run_id", [None, "train"], ids=["by their name", "by their run"])
def test_tries_of_a_run_that_idle_are_told_three_times_and_then_as_one(
    tmp_path: Path, run_id: str | None
) -> None:
    story = Story()
    for number in range(1, 7):
        begin = (number - 1) * 58
        job_id = f"train-{number}" if run_id is None else f"{4710 + number}"
        story.start(begin, job_id, "n0", **({} if run_id is None else {"run_id": run_id}))
        story.lives(job_id, range(begin, begin + 56), "n0", 0.0)
        story.put("jobs", begin + 57.5, job_id=job_id, type="cancelled")
    told = story.told(tmp_path)
    assert [rule for rule, _, _ in told] == ["idle_gpus"] * 3 + ["incident"]
    assert told[-1][1] == "idle_gpus/vision/ada/train"


@pytest.mark.parametrize("use", [0.0, None], ids=["sampled", "not sampled"])
def test_a_suspended_job_is_told_once_when_its_record_says(tmp_path: Path, use: float | None) -> None:
    story = Story()
    story.put("controls", 0, kind="rule", name="later", rule="held", thresholds={"minutes": 120})
    story.start(0, "steady", "n1")
    story.lives("steady", range(240), "n1", 0.9)
    story.start(0, "rests", "n0")
    story.lives("rests", range(70), "n0", 0.9)
    story.put("jobs", 70, job_id="rests", type="suspended", holds_gpus=True)
    story.lives("rests", range(70, 240), "n0", use)
    assert story.told(tmp_path) == [("held", "rests", 190)]


def test_nodes_that_come_up_one_at_a_time_and_stay_unused_are_one_ticket(tmp_path: Path) -> None:
    story = Story()
    off = {"rule": "unallocated", "enabled": False}  # what all idle nodes cost is another thing
    story.put("controls", 0, kind="rule", name="off", **off)
    node = {"type": "provisioned", "gpu_count": 8, "gpu_type": "H100", "cluster": "c1", "instance_type": "p5"}
    story.start(0, "steady", "n0")
    story.put("nodes", 0, node="n0", **node)
    story.lives("steady", range(1000), "n0", 0.9)
    for number in range(5):
        story.put("nodes", 30 + 100 * number, node=f"spare-{number}", **node)
    assert story.told(tmp_path) == [("forgotten_node", "c1/p5", 360)]


def test_bursts_of_each_half_hour_are_four_messages_of_which_the_last_one_goes_on(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "bursts", "n0")
    story.lives("bursts", range(540), "n0", None)
    for minute in range(130, 430, 30):
        story.put("jobs", minute, job_id="bursts", type="scaled", gpu_count=80, nodes={"n0": 80})
        story.put("jobs", minute + 8, job_id="bursts", type="scaled", gpu_count=8, nodes={"n0": 8})
    assert [rule for rule, _, _ in story.told(tmp_path)] == ["burn_fast", "burn_sustained"] * 2
    ended_min = (max(each.resolved_ms for each in story.alerts) - T0_MS) / MINUTE_MS
    assert ended_min == pytest.approx(408 + 14 + 60, abs=1)  # an hour after the last burst left the window


def test_a_rise_of_the_size_in_the_first_hours_is_one_ticket(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "elastic", "n0")
    story.lives("elastic", range(240), "n0", None)
    held = {"gpu_count": 24, "nodes": {f"n{number}": 8 for number in range(3)}}
    story.put("jobs", 60, job_id="elastic", type="scaled", **held)
    assert [rule for rule, _, _ in story.told(tmp_path)] == ["burn_drift"]


def test_phases_as_long_as_those_before_are_told_once(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "evaluates", "n0")
    for minute in range(0, 600, 150):
        story.lives("evaluates", range(minute, minute + 90), "n0", 0.9)
        story.lives("evaluates", range(minute + 90, minute + 150), "n0", 0.0)
    ((rule, _, minute),) = story.told(tmp_path)
    assert rule == "idle_gpus"
    assert 140 <= minute < 150


def _stands(
    story: Story, name: str, minute: int, *, in_cluster: str = "c1", until: int = 160, **about: Any
) -> None:
    """A job of an owner of its own, whose GPUs fall to 0 % at a minute."""
    story.start(0, name, name, **({"owner": f"of {name}", "cluster": in_cluster} | about))
    story.lives(name, range(minute), name, 0.9)
    story.lives(name, range(minute, until), name, 0.0)


def test_jobs_of_six_owners_that_stand_still_at_one_time_are_one_incident_of_their_cluster(
    tmp_path: Path,
) -> None:
    story = Story()
    story.put("controls", 0, kind="operator", name="nodes", owner="mlops")
    names = ["llama-7", "vit", "asr-12", "gnn", "clip-3", "bert"]
    for name in names:
        _stands(story, name, 60)
    ((rule, subject, minute),) = story.told(tmp_path)
    assert (rule, subject) == ("incident", "c1")
    assert 110 <= minute < 120


def test_jobs_of_very_different_sizes_that_stand_still_since_one_time_are_one_incident(
    tmp_path: Path,
) -> None:
    story = Story()
    story.put("controls", 0, kind="operator", name="nodes", owner="mlops")
    for number, gpus in enumerate((8, 2, 1, 1)):
        held: dict[str, Any] = {"gpu_count": gpus, "nodes": {f"n{number}": gpus}}
        _stands(story, f"n{number}", 60, until=260, **held)
    told = story.told(tmp_path)
    assert [(rule, subject) for rule, subject, _ in told] == [
        ("idle_gpus", "n0"),
        ("idle_gpus", "n1"),
        ("incident", "c1"),
    ], "at $20/h and $5/h dollars are enough long before they are at $2.50/h"


def test_jobs_of_three_owners_that_happen_to_be_told_of_at_one_time_are_alerts_of_their_own(
    tmp_path: Path,
) -> None:
    story = Story()
    for name, gpus, minute in (("a", 8, 120), ("b", 2, 105), ("c", 1, 50)):
        _stands(story, name, minute, until=200, gpu_count=gpus, nodes={name: gpus})
    told = story.told(tmp_path)
    assert sorted((rule, subject) for rule, subject, _ in told) == [("idle_gpus", each) for each in "abc"]
    assert max(at for *_, at in told) - min(at for *_, at in told) <= 10


def test_notebooks_that_people_leave_at_one_time_are_no_incident(tmp_path: Path) -> None:
    story = Story()
    for name in "abc":
        _stands(story, name, 60, until=240, labels={"interactive": "yes"})
    told = story.told(tmp_path)
    assert sorted((rule, subject) for rule, subject, _ in told) == [("idle_gpus", each) for each in "abc"]


def test_jobs_of_several_clusters_or_times_that_stand_still_are_alerts_of_their_own(tmp_path: Path) -> None:
    story = Story()
    stands = [("a", 40, "c1"), ("b", 40, "c1"), ("c", 64, "c1"), ("d", 40, "c2"), ("e", 40, "c3")]
    for name, minute, cluster in stands:
        _stands(story, name, minute, in_cluster=cluster)
    told = story.told(tmp_path)
    assert sorted((rule, subject) for rule, subject, _ in told) == [("idle_gpus", each) for each in "abcde"]


def test_processes_that_a_cancelled_job_left_are_told_with_its_name(tmp_path: Path) -> None:
    story = Story()
    node = {"type": "provisioned", "gpu_count": 8, "gpu_type": "H100", "cluster": "c1", "instance_type": "p5"}
    for number in range(2):
        story.put("nodes", 0, node=f"n{number}", **node)
    story.start(0, "steady", "n1")
    story.lives("steady", range(300), "n1", 0.9)
    story.start(0, "leaves", "n0")
    story.lives("leaves", range(70), "n0", 0.9)
    story.put("jobs", 70, job_id="leaves", type="cancelled")
    for minute in range(70, 300, 2):
        sample = {"node": "n0", "interval_ms": 2 * MINUTE_MS, "gpus": ["0", "1"], "util_ratio": [1.0, 1.0]}
        story.put("gpu", minute + 2, **sample)
    assert story.told(tmp_path) == [("forgotten_node", "c1/p5", 120)]


def _fails_each_two_hours(story: Story, names: list[str], *, saves: bool) -> None:
    """64 GPUs at $159/h, three times in a row; each attempt is another job if there are several names."""
    for number in range(3):
        begin, job_id = 125 * number, names[number % len(names)]
        attempt = 1 + number // len(names)
        held = {"gpu_count": 64, "nodes": {f"n{node}": 8 for node in range(8)}, "attempt": attempt}
        story.start(begin, job_id, "n0", **held)
        story.lives(job_id, range(begin, begin + 118), "n0", None)
        for minute in (60, 110) if saves else ():
            story.put("jobs", begin + minute, job_id=job_id, type="checkpointed", attempt=attempt)
        ends: dict[str, Any] = {"reason": "out_of_memory", "attempt": attempt}
        story.put("jobs", begin + 120, job_id=job_id, type="failed", **ends)


@pytest.mark.parametrize(
    ("names", "rule"),
    [(["llama"], "retry_loop"), (["llama-1", "llama-2", "llama-3"], "resubmit_loop")],
    ids=["of one job", "of one run"],
)
def test_a_dear_loop_of_hours_is_one_page_at_the_second_failure(
    tmp_path: Path, names: list[str], rule: str
) -> None:
    story = Story()
    _fails_each_two_hours(story, names, saves=False)
    story.start(0, "steady", "m0", owner="zoe", team="nlp")
    story.lives("steady", range(460), "m0", None)
    ((told, _, minute),) = story.told(tmp_path)
    assert told == rule
    assert 245 <= minute <= 246


def test_a_dear_job_that_goes_on_from_its_checkpoints_after_each_failure_is_no_loop(tmp_path: Path) -> None:
    story = Story()
    _fails_each_two_hours(story, ["llama"], saves=True)
    assert story.told(tmp_path) == []


def _some_work(story: Story, job_id: str, minutes: range, node: str, working: int) -> None:
    """The first GPUs of eight of a node work, the others do nothing."""
    for minute in minutes[::5]:
        story.put("jobs", minute + 4, job_id=job_id, type="heartbeat")
        use = [0.9] * working + [0.0] * (8 - working)
        gpus = [str(gpu) for gpu in range(8)]
        sample = {"node": node, "interval_ms": 5 * MINUTE_MS, "gpus": gpus, "util_ratio": use}
        story.put("gpu", minute + 5, job_id=job_id, **sample)


@pytest.mark.parametrize(
    ("working", "said", "minute"),
    [(7, "1 of 16 GPUs unused for 2 h", 180), (2, "", 0)],
    ids=["one", "most of a node are for straggler"],
)
def test_gpus_of_a_node_that_does_the_rest_of_the_work_are_told_by_their_names(
    tmp_path: Path, working: int, said: str, minute: int
) -> None:
    story = Story()
    story.start(0, "wide", "n0", gpu_count=16, nodes={"n0": 8, "n1": 8})
    _some_work(story, "wide", range(420), "n0", 8)
    _some_work(story, "wide", range(60), "n1", 8)
    _some_work(story, "wide", range(60, 420), "n1", working)
    ((rule, subject, at),) = story.told(tmp_path)
    assert (rule, subject) == ("idle_gpus" if said else "straggler", "wide")
    if said:
        assert minute <= at < minute + 10
        (alert,) = story.alerts
        assert alert.summary.startswith("wide leaves 1 of 16 GPUs unused for 2 h")
        assert (
            " at $2.49/h: GPU 7 of node n1 did nothing since 09:00 UTC; look whether they are dead, or ask for fewer"
            in alert.summary
        )


def test_a_job_that_uses_two_of_the_eight_gpus_that_it_asked_for_is_one_ticket(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "asks", "n0")
    _some_work(story, "asks", range(420), "n0", 2)
    ((rule, _, minute),) = story.told(tmp_path)
    assert rule == "idle_gpus"
    assert 120 <= minute < 130
    assert "6 of 8 GPUs unused" in story.alerts[0].summary


def test_gpus_that_take_turns_of_an_hour_and_a_half_are_not_unused(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "turns", "n0")
    for begin in range(0, 600, 120):
        _some_work(story, "turns", range(begin, begin + 90), "n0", 4)
        _some_work(story, "turns", range(begin + 90, begin + 120), "n0", 8)
    assert story.told(tmp_path) == []


@pytest.mark.parametrize("first", [0.5, 30], ids=["one at its start", "none at its start"])
def test_heartbeats_each_half_hour_are_no_silence_until_three_are_missed(
    tmp_path: Path, first: float
) -> None:
    story = Story()
    story.start(0, "rare", "n0")
    for minute in range(0, 480, 30):
        story.put("jobs", minute + first, job_id="rare", type="heartbeat")
    assert story.told(tmp_path) == []
    story.put("jobs", 700, job_id="other", type="queued")
    ((rule, _, minute),) = story.told(tmp_path)
    assert (rule, minute) == ("silent_job", int(450 + first + 90))
    assert "no heartbeat or sample for 1 h 30 min, and had one each 30 min" in story.alerts[0].summary


def test_heartbeats_each_minute_that_end_are_told_ten_minutes_later(tmp_path: Path) -> None:
    story = Story()
    story.start(0, "dies", "n0")
    for minute in range(1, 61):
        story.put("jobs", minute, job_id="dies", type="heartbeat")
    story.put("jobs", 200, job_id="other", type="queued")
    assert story.told(tmp_path) == [("silent_job", "dies", 70)]


@pytest.mark.parametrize(("rest", "minute"), [(0.05, 150), (0.13, 150)], ids=["idle", "nearly idle"])
def test_seven_of_eight_nodes_that_wait_for_one_are_one_page(
    tmp_path: Path, rest: float, minute: int
) -> None:
    story = Story()
    nodes = {f"n{number}": 8 for number in range(8)}
    story.start(0, "hangs", "n0", gpu_count=64, nodes=nodes)
    for number in range(8):
        story.lives("hangs", range(120), f"n{number}", 0.9)
        story.lives("hangs", range(120, 300), f"n{number}", rest if number else 0.9)
    ((rule, _, at),) = story.told(tmp_path)
    assert rule == "straggler"
    assert minute <= at <= minute + 10
    ((alert,)) = [each for each in story.alerts if each.messages]
    assert alert.severity == "page"
    assert "7 of 8 nodes stand still since 09:58 UTC" in alert.summary


@pytest.mark.parametrize("measures_sm", [True, False], ids=["its activity is sampled", "by its use alone"])
def test_one_rank_of_64_that_spins_is_a_page_within_twenty_minutes(tmp_path: Path, measures_sm: bool) -> None:
    story = Story()
    nodes = {f"n{number}": 8 for number in range(8)}
    story.start(0, "hangs", "n0", gpu_count=64, nodes=nodes)
    for number, node in enumerate(nodes):
        for minute in range(0, 240, 2):
            use = [0.9] * 8 if minute < 120 else [0.0 if number else 1.0] + [0.0] * 7
            active = [0.5 * each for each in use] if minute < 120 else [0.03 * each for each in use]
            about: dict[str, Any] = {"sm_ratio": active} if measures_sm else {}
            about |= {"node": node, "interval_ms": 2 * MINUTE_MS, "gpus": [str(gpu) for gpu in range(8)]}
            story.put("gpu", minute + 2, job_id="hangs", util_ratio=use, **about)
    ((rule, _, minute),) = story.told(tmp_path)
    assert rule == "idle_gpus"
    assert minute <= 140
    assert story.alerts[0].severity == "page"


def _one_empties(story: Story, nodes: int) -> None:
    """Nodes with a job each, and one that has none any more after an hour."""
    node = {"type": "provisioned", "gpu_count": 8, "gpu_type": "H100", "cluster": "c1", "instance_type": "p5"}
    for number in range(nodes):
        story.put("nodes", 0, node=f"n{number}", **node)
        story.start(0, f"j{number}", f"n{number}")
    story.put("jobs", 60, job_id="j0", type="completed")


def test_one_node_without_a_job_is_told_once(tmp_path: Path) -> None:
    story = Story()
    _one_empties(story, 3)
    story.put("jobs", 700, job_id="other", type="queued")
    told = story.told(tmp_path)
    assert [(rule, subject) for rule, subject, _ in told] == [("unallocated", "nodes")]
    assert "forgotten_node" in {alert.rule for alert in story.alerts}, "it is stored all the same"


def test_a_node_that_is_forgotten_beside_much_that_is_unused_is_told_by_its_name(tmp_path: Path) -> None:
    story = Story()
    _one_empties(story, 4)
    for number in (1, 2, 3):  # half of their GPUs are free from the start on
        story.put("jobs", 0, job_id=f"j{number}", type="scaled", gpu_count=4, nodes={f"n{number}": 4})
    story.put("jobs", 700, job_id="other", type="queued")
    assert [rule for rule, _, _ in story.told(tmp_path)] == ["unallocated", "forgotten_node"]


def test_trials_of_a_sweep_that_hang_at_one_time_are_one_message(tmp_path: Path) -> None:
    story = Story()
    for number in range(5):
        about = {"experiment": "lr-sweep", "gpu_count": 8}
        story.start(0, f"trial-{number}", f"n{number}", **about)
        story.lives(f"trial-{number}", range(60), f"n{number}", 0.9)
        story.lives(f"trial-{number}", range(60, 240), f"n{number}", 0.0)
    assert [rule for rule, _, _ in story.told(tmp_path)] == ["incident"]


def test_nodes_that_spin_by_their_power_beside_some_that_work_are_one_page(tmp_path: Path) -> None:
    story = Story()
    nodes = {f"n{number}": 8 for number in range(8)}
    story.start(0, "hangs", "n0", gpu_count=64, nodes=nodes)
    for minute in range(0, 240, 2):
        for number, node in enumerate(nodes):
            use, power_w = (1.0, 150) if minute >= 120 and number >= 3 else (0.92, 620)
            gpus = [str(gpu) for gpu in range(8)]
            sample = {"node": node, "interval_ms": 2 * MINUTE_MS, "gpus": gpus, "util_ratio": [use] * 8}
            story.put("gpu", minute + 2, job_id="hangs", power_w=[power_w] * 8, **sample)
    ((rule, _, minute),) = story.told(tmp_path)
    assert rule == "straggler"
    assert minute <= 165
    assert "5 of 8 nodes stand still since" in story.alerts[0].summary


@pytest.mark.parametrize(
    "put_back_minute", [None, 124, 180], ids=["it stays", "put back soon", "put back later"]
)
def test_500_jobs_under_one_wrong_price_are_one_message(tmp_path: Path, put_back_minute: int | None) -> None:
    story = Story()
    for number in range(500):
        name = "".join(chr(ord("a") + digit) for digit in divmod(number, 26))
        story.start(0, f"job-{name}", f"n{number}", owner=f"o{number}", team=f"t{number % 50}")
    wrong_ms = T0_MS + 120 * MINUTE_MS
    story.put("prices", 120, **PRICE | {"usd": "24.9", "effective_ms": wrong_ms})
    if put_back_minute is not None:
        story.put("prices", put_back_minute, **PRICE | {"effective_ms": T0_MS + put_back_minute * MINUTE_MS})
    story.put("jobs", 300, job_id="other", type="queued")
    ((rule, subject, minute),) = story.told(tmp_path)
    assert (rule, subject) == ("price_jump", "h100")
    assert minute <= 122


def test_ten_unrelated_faults_of_one_time_are_ten_messages(tmp_path: Path) -> None:
    story = Story()
    mine = {name: {"owner": f"o-{name}", "team": f"t-{name}"} for name in "abcdefghij"}
    for name in "abcd":
        story.start(0, name, f"n-{name}", **mine[name])
        story.put("jobs", 120, job_id=name, type="scaled", gpu_count=80)
    for name in "ef":
        story.start(0, name, f"n-{name}", **mine[name])
        story.put("jobs", 120, job_id=name, type="suspended", holds_gpus=True)
    for attempt, minute in enumerate((102, 108, 114), 1):
        story.start(minute, "g", "n-g", attempt=attempt, **mine["g"])
        story.put("jobs", minute + 5, job_id="g", type="failed", attempt=attempt, reason="out_of_memory")
    story.start(120, "h", "n-h", gpu_count=512, nodes=None, **mine["h"])
    story.start(0, "i", "n-i", gpu_count=64, nodes=None, **mine["i"])
    for minute in range(1, 240):
        story.put("jobs", minute, job_id="i", type="heartbeat", progress={"step": min(minute, 120)})
    for minute, usd in ((0, "1.29"), (120, "12.9")):
        at_ms = T0_MS + minute * MINUTE_MS
        story.put(
            "prices", minute, **PRICE | {"sku": "a100", "gpu_type": "A100", "usd": usd, "effective_ms": at_ms}
        )
    story.put("jobs", 240, job_id="other", type="queued")
    told = [(rule, subject) for rule, subject, _ in story.told(tmp_path)]
    assert sorted(told) == [
        *(("burn_fast", name) for name in "abcd"),
        ("ceiling", "h"),
        ("held", "e"),
        ("held", "f"),
        ("price_jump", "a100"),
        ("retry_loop", "g"),
        ("stalled", "i"),
    ]


@pytest.mark.parametrize(
    ("sources", "incidents"),
    [
        (["dcgm/a"], {"dcgm/a": 12}),
        (["dcgm/a", "dcgm/b"], {"dcgm/a": 6, "dcgm/b": 6}),
        (["sdk"], {"c1/A100": 4, "c1/H100": 4, "c2/H100": 4}),
    ],
    ids=["one serves three pools of two clusters", "two of the same minute", "each job has its own"],
)
def test_a_source_that_dies_is_one_message_on_however_many_pools(
    tmp_path: Path, sources: list[str], incidents: dict[str, int]
) -> None:
    story = Story()
    story.put("prices", 0, **PRICE | {"sku": "a100", "gpu_type": "A100", "usd": "1.29"})
    pools = [("c1", "A100"), ("c1", "H100"), ("c2", "H100")]
    for number in range(12):
        name, source = f"job-{'abcdefghijkl'[number]}", sources[number // 3 % len(sources)]
        cluster, gpu_type = pools[number % 3]
        story.start(0, name, f"n{number}", cluster=cluster, gpu_type=gpu_type, owner=name)
        for minute in range(1, 120, 2):
            story.put("jobs", minute, job_id=name, type="heartbeat", source=source)
    story.put("jobs", 200, job_id="other", type="queued")
    assert sorted(story.told(tmp_path)) == [("incident", name, 130) for name in sorted(incidents)]
    jobs = {each.subject: each.summary for each in story.alerts if each.rule == "incident"}
    assert all(jobs[name].startswith(f"{count} jobs at ") for name, count in incidents.items())
