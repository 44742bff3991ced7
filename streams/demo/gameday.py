"""A story as a game day plays it into somebody's own meter: under names and prices of its own, moved so that its alert is due at once.

Nothing is compressed: rules judge real minutes. What came before the alert is dated back, and the rest comes at its own time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from schemas.durations import MINUTE_MS
from streams.demo.records import DemoRecord
from streams.demo.story_logs import BEGIN_MS, STORIES, Story
from streams.topics import Topic

PREFIX: Final = "gameday"
#: What jobs have of the run's name, and its prices ask for: no price of a user's own matches so much, and these match nothing else.
_PLACES: Final = ("cloud", "cluster", "account", "zone")
#: A price for a type of GPU is compared with others of it, and one that is taken back to nothing would be far from them.
_UNPRICED_BY: Final = ("gpu_type",)


class GameStory(NamedTuple):
    """What a story should give: which rule, of what severity by default, in which minute of its log.

    `every_minutes`: the rule is judged at whole so many minutes, or of each job once in so many; 0: at every tick.
    """

    rule: str
    severity: str
    minute: float
    about: str
    every_minutes: int = 0


def deadlock() -> Story:
    """A training job on 256 GPUs reports the same step again and again: its ranks wait for each other."""
    story = Story("h100-od")
    about = {
        "owner": "mia",
        "team": "foundation",
        "gpu_type": "H100",
        "purchase": "on_demand",
        "region": "us-east-1",
    }
    # Its rate is declared: that it is high is nobody's news.
    story.job(0, "moe-pretrain", "started", gpu_count=256, expected_usd_per_hour="640", **about)
    for minute in range(1, 241):
        step = min(minute, _DEADLOCK_MINUTE) * 50
        story.job(minute, "moe-pretrain", "heartbeat", progress={"step": step})
    story.job(241, "moe-pretrain", "cancelled")
    return story


_DEADLOCK_MINUTE: Final = 40
GAMES: Final[Mapping[str, GameStory]] = {
    "retry-loop": GameStory("retry_loop", "page", 23, "a job runs out of memory at the same step, and is started again each time"),
    "deadlock": GameStory("stalled", "page", _DEADLOCK_MINUTE + 16, "a job on 256 GPUs stands at one step, and pays on"),
    "cross-region": GameStory("traffic", "ticket", 123, "a job reads its data from another region, for more than its GPUs cost"),
    "spot-fallback": GameStory("price_basis", "ticket", 137, "a spot job is preempted, and goes on at the price on demand"),
    # Of each job once in five minutes, after ten minutes more than it takes.
    "idle-gpus": GameStory("idle_gpus", "ticket", 140, "a notebook holds four GPUs after its process has ended", 5),
    # Its first rate is known after six whole minutes, and it is judged at the whole five minutes after that.
    "oversized": GameStory("oversized", "ticket", 192, "a test is started on 64 GPUs, where such tests take one or two", 5),
}  # fmt: skip
_STORIES: Final = {**STORIES, "deadlock": deadlock}
#: A story whose rule is judged at whole five minutes is sent so long before: it must be stored by then.
_STORED_MS: Final = 30_000


@dataclass(frozen=True)
class Game:
    """One run of a story: its records in order of time, and how each of its jobs and prices is taken back."""

    run: str
    owner: str
    records: tuple[DemoRecord, ...]
    jobs: tuple[str, ...]
    due_ms: int  # when its alert should open

    def endings(self, at_ms: int) -> list[DemoRecord]:
        """Records that end each job which has not ended by an instant."""
        attempts: dict[str, tuple[int, bool]] = {}
        for record in self.records:
            value = orjson.loads(record.value)
            if record.topic is Topic.JOBS and record.time_ms <= at_ms:
                number = int(value.get("attempt", 1))
                over = value["type"] in ("completed", "failed", "cancelled", "preempted")
                attempts[value["job_id"]] = number, over and value["type"] in ("completed", "cancelled")
        return [
            self._record(Topic.JOBS, at_ms, f"end-{place}", job_id=job_id, type="cancelled", attempt=number)
            for place, (job_id, (number, is_over)) in enumerate(sorted(attempts.items()))
            if not is_over
        ]

    def prices_of_nothing(self, at_ms: int) -> list[DemoRecord]:
        """Its prices once more, of nothing: whatever its jobs cost is taken back, to the last nano-dollar."""
        found = []
        for record in self.records:
            if record.topic is Topic.PRICES:
                value = orjson.loads(record.value)
                value |= {"id": f"{value['id']}-back", "time_ms": at_ms, "usd": "0"}
                found.append(DemoRecord(Topic.PRICES, at_ms, orjson.dumps(value)))
        return found

    def receiver(self, at_ms: int, kind: str, url: str) -> DemoRecord:
        """The record of its owner, with the address that its messages go to."""
        return self._record(Topic.CONTROLS, at_ms, "owner", kind="owner", name=self.owner, **{kind: url})

    def silence(self, at_ms: int, until_ms: int) -> DemoRecord:
        """A silence of its team: that its alerts end later is nobody's news."""
        said: dict[str, Any] = {"kind": "silence", "name": self.run, "team": self.run}
        # An alert ends as of a tick before the record, which it must cover.
        said |= {"from_ms": at_ms - 10 * MINUTE_MS, "until_ms": until_ms}
        return self._record(Topic.CONTROLS, at_ms, "silence", comment="the game day is over", **said)

    def _record(self, topic: Topic, at_ms: int, record_id: str, /, **value: Any) -> DemoRecord:
        common = {"id": record_id, "source": self.run, "time_ms": at_ms}
        return DemoRecord(topic, at_ms, orjson.dumps({**common, **value}))


def game(name: str, now_ms: int, live_ms: int, owner: str) -> Game:
    """A story with names of its own, whose alert is due `live_ms` after `now_ms`, or when its rule is judged next; owner '': one of its own, too."""
    run = f"{PREFIX}-{name}-{now_ms // 1000:x}"
    due_ms = now_ms + live_ms
    if every_ms := GAMES[name].every_minutes * MINUTE_MS:
        due_ms = -(-(due_ms + _STORED_MS) // every_ms) * every_ms
    shift_ms = due_ms - BEGIN_MS - round(GAMES[name].minute * MINUTE_MS)
    whose = owner or run
    records = []
    for line in _STORIES[name]().content().splitlines():
        event = orjson.loads(line)
        topic, value = Topic(event["topic"]), event["value"]
        value |= {"source": run, "time_ms": value["time_ms"] + shift_ms}
        for field in ("job_id", "node", "sku"):
            if field in value:
                value[field] = f"{run}.{value[field]}"
        if topic is Topic.PRICES:
            value = {key: each for key, each in value.items() if key not in _UNPRICED_BY}
            value |= {"effective_ms": value["effective_ms"] + shift_ms, "cloud": run}
            if value["component"] == "gpu":
                value |= dict.fromkeys(_PLACES, run)
        elif topic is Topic.JOBS and value["type"] != "queued":
            value |= {"owner": whose, "team": run, **dict.fromkeys(_PLACES, run)}
        elif topic is Topic.NETWORK:
            value["cloud"] = run
        if topic is Topic.JOBS and value["type"] == "queued":
            continue  # it goes on in another log's time alone
        records.append(DemoRecord(topic, value["time_ms"], orjson.dumps(value)))
    jobs = {orjson.loads(each.value).get("job_id", "") for each in records if each.topic is Topic.JOBS}
    return Game(run, whose, tuple(records), tuple(sorted(jobs)), due_ms)
