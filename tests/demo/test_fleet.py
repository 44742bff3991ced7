"""The demonstration's fleet: the same bytes again, nothing that the meter would refuse, and the story it promises."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, takewhile
from typing import Any

import orjson
import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from streams.demo import job_specs
from streams.demo.catalog import POOLS, Pool
from streams.demo.fleet import SAMPLE_MS, Fleet
from streams.demo.nodes import PoolNodes
from streams.demo.records import DemoRecord
from streams.demo.story import RUNAWAY_EVERY_MS, RUNAWAY_LASTS_MS, RUNAWAY_MS, caption, scenes
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.rules import forgotten_node, unallocated
from streams.topics import Topic

START_MS = 1_750_000_000_000
MINUTE_MS = 60_000
Story = dict[Topic, list[dict[str, Any]]]
ADDRESSES = {"ada": "http://127.0.0.1:9/ada"}


def told(minutes: int, seed: int = 1, step_ms: int = MINUTE_MS) -> list[DemoRecord]:
    fleet = Fleet(START_MS, seed, ADDRESSES)
    records = []
    for at_ms in range(START_MS, START_MS + minutes * MINUTE_MS + 1, step_ms):
        records += fleet.advance(at_ms)
    return records


@pytest.fixture(scope="module")
def two_hours() -> list[DemoRecord]:
    return told(120)


def parsed(records: list[DemoRecord]) -> Story:
    story: Story = {topic: [] for topic in Topic}
    for record in records:
        story[record.topic].append(orjson.loads(record.value))
    return story


@pytest.fixture(scope="module")
def story(two_hours: list[DemoRecord]) -> Story:
    return parsed(two_hours)


def events(story: Story, topic: Topic, **match: object) -> list[dict[str, Any]]:
    return [
        event for event in story[topic] if all(event.get(name) == wanted for name, wanted in match.items())
    ]


def test_nothing_is_refused_by_the_decoder(two_hours: list[DemoRecord]) -> None:
    for record in two_hours:
        event = decode(record.topic, record.value, [], record.time_ms)
        assert not isinstance(event, Invalid), (event, record.value)


def test_ids_are_unique_and_time_only_goes_forward(two_hours: list[DemoRecord]) -> None:
    ids = [orjson.loads(record.value)["id"] for record in two_hours]
    assert len(set(ids)) == len(ids)
    assert all(one.time_ms <= two.time_ms for one, two in pairwise(two_hours))
    assert two_hours[-1].time_ms <= START_MS + 120 * MINUTE_MS


def test_the_same_seed_gives_the_same_bytes_however_time_is_cut() -> None:
    assert told(40) == told(40, step_ms=40 * MINUTE_MS) == told(40, step_ms=96_000) == told(40, step_ms=1_250)


def test_another_seed_tells_it_otherwise() -> None:
    assert told(5, seed=1) != told(5, seed=2)


def test_no_gpu_is_held_twice(story: Story) -> None:
    seen: Counter[tuple[int, str, str]] = Counter()
    for sample in story[Topic.GPU]:
        seen.update((sample["time_ms"], sample["node"], gpu) for gpu in sample["gpus"])
    assert set(seen.values()) == {1}


def test_about_forty_jobs_on_about_four_hundred_gpus(story: Story) -> None:
    for minute in range(0, 120, 5):
        at_ms = START_MS + minute * MINUTE_MS + SAMPLE_MS
        samples = events(story, Topic.GPU, time_ms=at_ms)
        assert 33 <= len({sample["job_id"] for sample in samples if "job_id" in sample}) <= 45
        assert 350 <= sum(len(sample["gpus"]) for sample in samples) <= 500
        assert 45 <= len({sample["node"] for sample in samples}) <= 62


def test_the_runaway_is_eight_times_as_wide_and_nobody_says_so(story: Story) -> None:
    out, back = events(story, Topic.JOBS, job_id="llm-7b-pretrain", type="scaled")[:2]
    assert (out["time_ms"], out["gpu_count"]) == (START_MS + RUNAWAY_MS, 128)
    assert (back["time_ms"], back["gpu_count"]) == (START_MS + RUNAWAY_MS + RUNAWAY_LASTS_MS, 16)
    assert "expected_usd_per_hour" not in out
    assert sum(out["nodes"].values()) == 128
    assert set(back["nodes"]) < set(out["nodes"])


def test_a_runaway_is_worth_one_page_only() -> None:
    """Not `burn_sustained` too, once it is put right: that asks for 2.1 times the cost over an hour."""
    assert 1 + 7 * RUNAWAY_LASTS_MS / (60 * MINUTE_MS) < 2.1


def test_runaways_take_turns(story: Story) -> None:
    outs = [e for e in events(story, Topic.JOBS, type="scaled") if "expected_usd_per_hour" not in e][::2]
    assert [e["job_id"] for e in outs[:2]] == list(job_specs.RUNAWAYS[:2])
    assert outs[1]["time_ms"] - outs[0]["time_ms"] == RUNAWAY_EVERY_MS


def test_a_scale_out_that_is_meant_is_declared(story: Story) -> None:
    (meant,) = events(story, Topic.JOBS, job_id=job_specs.GROWING, type="scaled")
    assert (meant["gpu_count"], meant["expected_usd_per_hour"]) == (48, "336.05")


def test_the_spot_job_loses_its_node_and_resumes_on_another(story: Story) -> None:
    life = events(story, Topic.JOBS, job_id=job_specs.SPOT)
    ends = [event for event in life if event["type"] == "preempted"]
    assert [event["reason"] for event in ends] == ["spot_reclaim"] * 2
    assert any(event["type"] == "checkpointed" and event["time_ms"] < ends[0]["time_ms"] for event in life)
    first, second, third = [event for event in life if event["type"] == "allocated"]
    assert [first["attempt"], second["attempt"], third["attempt"]] == [1, 2, 3]
    assert set(first["nodes"]) & set(second["nodes"]) == set()
    (gone,) = first["nodes"]
    assert [event["type"] for event in events(story, Topic.NODES, node=gone)][-1] == "terminated"


def test_the_forgotten_job_does_next_to_nothing(story: Story) -> None:
    samples = events(story, Topic.GPU, job_id=job_specs.FORGOTTEN)
    ratios = [ratio for sample in samples for ratio in sample["util_ratio"]]
    assert 0.005 < sum(ratios) / len(ratios) < 0.02


def test_the_notebook_is_known_by_its_samples_alone(story: Story) -> None:
    assert {event["type"] for event in events(story, Topic.JOBS, job_id="notebook-donald")} == {"updated"}
    assert all(sample["gpu_type"] == "L40S" for sample in events(story, Topic.GPU, job_id="notebook-donald"))


def test_a_job_waits_in_the_queue_until_another_ends(story: Story) -> None:
    (waits,) = events(story, Topic.JOBS, job_id="llm-70b-eval", type="queued")
    (begins,) = events(story, Topic.JOBS, job_id="llm-70b-eval", type="allocated")
    (ends,) = events(story, Topic.JOBS, job_id="moe-8x-warmup", type="completed")
    assert waits["time_ms"] < START_MS < begins["time_ms"] == ends["time_ms"]


def test_a_job_that_crashed_is_tried_again(story: Story) -> None:
    life = events(story, Topic.JOBS, job_id=job_specs.CRASHING)
    assert [event["reason"] for event in life if event["type"] == "failed"] == ["out_of_memory"]
    assert life[-1]["attempt"] == 2


def test_a_price_comes_after_what_it_prices(story: Story) -> None:
    (price,) = events(story, Topic.PRICES, gpu_type="B200")
    (begins,) = events(story, Topic.JOBS, job_id=job_specs.UNPRICED, type="allocated")
    assert price["effective_ms"] < begins["time_ms"] < price["time_ms"]


def test_the_sweep_is_many_short_trials(story: Story) -> None:
    ends = Counter(e["type"] for e in events(story, Topic.JOBS) if e["job_id"].startswith("sweep-"))
    assert ends["completed"] > 100
    assert 0 < ends["failed"] < 30
    assert 0 < ends["cancelled"] < 40


def test_owners_have_their_addresses(story: Story) -> None:
    (control,) = events(story, Topic.CONTROLS, kind="owner")
    assert (control["name"], control["webhook"]) == ("ada", ADDRESSES["ada"])


def test_rules_about_spare_nodes_are_set(story: Story) -> None:
    events_of = [decode(Topic.CONTROLS, orjson.dumps(value), [], START_MS) for value in story[Topic.CONTROLS]]
    controls = Controls.from_events([event for event in events_of if isinstance(event, ControlEvent)])
    assert controls.faults == ()
    assert not settings_of(forgotten_node.RULE.name, controls.fleet_rules).enabled
    assert settings_of(unallocated.RULE.name, controls.fleet_rules).thresholds["idle_ratio"] == 0.25


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fleet_is_as_large_after_a_day_as_in_its_first_hour(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.demo.fleet.report_samples", lambda *_: None)  # nine tenths of the records
    fleet = Fleet(START_MS, seed)
    held: dict[str, int] = {}
    begun: Counter[str] = Counter()
    for hour in range(25):
        for event in parsed(fleet.advance(START_MS + hour * 60 * MINUTE_MS))[Topic.JOBS]:
            begun[event["job_id"]] += event["type"] == "queued" and event["attempt"] == 1
            if event["type"] in ("allocated", "scaled"):
                held[event["job_id"]] = event["gpu_count"]
            elif event["type"] in ("completed", "failed", "cancelled", "preempted"):
                held.pop(event["job_id"], None)
        if hour:  # at its beginning some wait for GPUs
            assert len(held) >= 36, hour
            assert sum(held.values()) >= 370, hour
    assert set(begun.values()) <= {0, 1}, "each job has a name of its own"
    for jobs in job_specs.SUCCESSIONS:
        assert sum(name.startswith(jobs.names) for name in begun) >= 3


def test_successors_are_the_same_again_and_others_by_another_seed() -> None:
    first, again, other = (
        list(takewhile(lambda scene: scene.at_ms < 24 * 60 * MINUTE_MS, scenes(seed))) for seed in (1, 1, 2)
    )
    assert first == again
    names = tuple(name for jobs in job_specs.SUCCESSIONS for name in jobs.names)
    assert [s.at_ms for s in first if s.job_id.startswith(names)] != [
        s.at_ms for s in other if s.job_id.startswith(names)
    ]


def test_a_pool_without_room_gives_nothing_and_keeps_what_it_has() -> None:
    nodes = PoolNodes(POOLS["dev"])
    nodes.add()
    assert nodes.place(16) is None
    held = nodes.place(6)
    assert held == {"dev-01": [0, 1, 2, 3, 4, 5]}
    assert nodes.place(3) is None
    assert nodes.place(2) == {"dev-01": [6, 7]}
    nodes.release(held)
    assert list(nodes.idle()) == [("dev-01", [0, 1, 2, 3, 4, 5])]


def test_what_was_held_of_a_node_that_is_gone_is_gone() -> None:
    nodes = PoolNodes(Pool("x", 0, "H100", "p5", "r", "z", "c"))
    nodes.remove(nodes.add())
    nodes.release({"x-01": [0]})
    assert list(nodes.idle()) == []


def test_what_is_special_has_a_caption() -> None:
    first = takewhile(lambda scene: scene.at_ms < 40 * MINUTE_MS, scenes(1))
    said = [(scene.at_ms // MINUTE_MS, text) for scene in first if (text := caption(scene)) is not None]
    assert [minute for minute, _ in said] == [9, 11, 15, 22, 23, 33]
    assert said[2][1] == "ada scales llm-7b-pretrain from 16 to 128 GPUs by mistake"
    assert said[4][1] == "ada scales llm-7b-pretrain back to 16 GPUs"
    assert said[5][1].startswith("edsger scales video-diffusion from 32 to 48 GPUs and declares")
