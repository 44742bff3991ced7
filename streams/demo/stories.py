"""Plays the logs of the stories in the demo's time, beside its fleet, and again each day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

import orjson

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.demo.records import DemoRecord
from streams.demo.story_logs import BEGIN_MS, STORIES
from streams.topics import Topic

#: Where their jobs run and what their prices are for, so that no price is both the fleet's and theirs.
CLOUD: Final = "stories"
_PRICED: Final = (Topic.JOBS, Topic.NETWORK, Topic.STORAGE, Topic.PRICES)
#: The limit of this rule is a share of what all jobs cost, and the fleet beside costs several times what the story does.
_CHANGED: Final[Mapping[str, Mapping[str, object]]] = {"nlp-share": {"thresholds": {"share_ratio": 0.1}}}


class StoryPart(NamedTuple):
    """How a story is played: at its own time of day, or later, and which caption it has when."""

    delay_ms: int  # whole hours: some rules are judged by the hour
    caption_minute: int  # of the log
    caption: str


PARTS: Final[Mapping[str, StoryPart]] = {
    "retry-loop": StoryPart(
        2 * HOUR_MS, 7, "llama-sft runs out of memory; its launcher will start it again and again"
    ),
    "cross-region": StoryPart(
        0, 91, "the data set of vit-pretrain moves to us-west-2, and it reads a terabyte an hour"
    ),
    "spot-fallback": StoryPart(
        0, 132, "diffusion-xl loses its spot nodes; the autoscaler finds room on demand only"
    ),
    "idle-gpus": StoryPart(HOUR_MS, 61, "the kernel of notebook-7 dies; the notebook keeps its four GPUs"),
    "oversized": StoryPart(
        0, 185, "lin starts test-12 with the launcher's default, 64 GPUs, and goes to lunch"
    ),
    "team-takes-cluster": StoryPart(0, 90, "team nlp starts more and larger trials of its sweep: 168 GPUs"),
}


class Stories:
    """`advance` only moves forward; `captions` are in order of time, ms after the start."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._days_ms = start_ms // DAY_MS * DAY_MS - BEGIN_MS // DAY_MS * DAY_MS
        self._day = 1
        self._records = self._of_day(1)
        self._next = 0

    @property
    def owners(self) -> set[str]:
        """Who owns their jobs."""
        values = (orjson.loads(record.value) for record in self._records)
        return {value["owner"] for value in values if "owner" in value}

    def advance(self, to_ms: int) -> list[DemoRecord]:
        """The records since the last call, in order of time."""
        played: list[DemoRecord] = []
        while True:
            begin = self._next
            while self._next < len(self._records) and self._records[self._next].time_ms <= to_ms:
                self._next += 1
            played += self._records[begin : self._next]
            if self._next < len(self._records):
                return played
            self._day += 1
            self._records, self._next = self._of_day(self._day), 0

    def captions(self) -> Iterator[tuple[int, str]]:
        """Yield what happens in them, and when, without end; what happened before the start comes at the start."""
        for day in count(1):
            captions = []
            for name, part in PARTS.items():
                at_ms = BEGIN_MS + part.caption_minute * MINUTE_MS + self._shift_ms(day) + part.delay_ms
                again = "" if day == 1 else f" (day {day})"
                captions.append((max(at_ms - self._start_ms, 0), f"story {name}: {part.caption}{again}"))
            yield from sorted(captions)

    def _shift_ms(self, day: int) -> int:
        return self._days_ms + (day - 1) * DAY_MS

    def _of_day(self, day: int) -> list[DemoRecord]:
        """The records of all stories on the first, second... day; they end before the next one's begin."""
        records = (record for name in STORIES for record in self._played(name, day))
        return sorted(records, key=lambda record: record.time_ms)

    def _played(self, name: str, day: int) -> Iterator[DemoRecord]:
        for line in STORIES[name]().content().splitlines():
            event = orjson.loads(line)
            topic, value = Topic(event["topic"]), event["value"]
            value |= self._changed(name, topic, value, day)
            yield DemoRecord(topic, value["time_ms"], orjson.dumps(value))

    def _changed(self, name: str, topic: Topic, value: Mapping[str, Any], day: int) -> dict[str, object]:
        again = "" if day == 1 else f"-{day}"
        changed: dict[str, object] = {
            "source": f"story/{name}{again}",  # ids are unique in one log only
            "time_ms": value["time_ms"] + self._shift_ms(day) + PARTS[name].delay_ms,
        }
        if again and "job_id" in value:
            changed["job_id"] = f"{value['job_id']}{again}"
        if topic in _PRICED:
            changed["cloud"] = CLOUD
        if topic is Topic.PRICES:
            # Logs share prices, so these are the same records in each.
            changed["effective_ms"] = value["effective_ms"] + self._shift_ms(day)
        if topic is Topic.CONTROLS:
            changed |= _CHANGED.get(value["name"], {})
        return changed
