"""What a seed writes to the log, and the settings it is metered with.

The same script can be run with any faults, or with none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from streams.engine.settings import ShardSettings
from streams.topics import REFERENCE_TOPICS
from tests.oracle.model import DAY_MS, HOUR_MS, MINUTE_MS, Json, Line
from tests.simulator.log import Written
from tests.simulator.rare_stories import rare_stories
from tests.simulator.sampled_jobs import sampled_jobs
from tests.simulator.spenders import spending
from tests.simulator.values import Fleet, is_future, numbers, poison
from tests.simulator.world import EPOCH_MS

_AMOUNTS = ("network", "storage")
_TOPICS = ("jobs", "gpu", "network", "storage", "nodes", "prices", "controls")
#: The share of seeds in which budgets and rules across jobs are judged.
BUDGETS_RATIO = 0.4
_COPIES_WITHIN_MS = 20 * MINUTE_MS  # of log time; an amount is remembered for longer


@dataclass(frozen=True)
class Script:
    """A log to be written, and how it is to be metered."""

    settings: ShardSettings
    partitions: int
    writes: list[Written]
    gap: tuple[int, int] | None  # [from, to) of the log's time, in which nothing is written
    has_budgets: bool = False  # whether rules across jobs are judged

    @property
    def end_ms(self) -> int:
        """When the last record is appended; a log may stay empty."""
        return self.writes[-1].append_ms if self.writes else EPOCH_MS + MINUTE_MS


def write_script(rng: random.Random) -> Script:
    """Draw a log of some minutes."""
    span_ms = rng.choice((1, 2, 3, 4)) * MINUTE_MS
    settings = ShardSettings(
        job_horizon_ms=rng.choice((10 * MINUTE_MS, 50 * MINUTE_MS, DAY_MS)),
        late_horizon_ms=rng.choice((60_000, 600_000)),
        rows_per_checkpoint=rng.choice((3, 40, 100_000)),
    )
    partitions = rng.choice((1, 2, 2, 3))
    events = _events(rng, span_ms, partitions)
    gap = None
    if rng.random() < 0.15:
        from_ms = EPOCH_MS + rng.randrange(span_ms)
        gap = (from_ms, from_ms + rng.choice((HOUR_MS // 4, HOUR_MS, 2 * HOUR_MS)))
    written = [_written(rng, topic, partition, event, span_ms, gap) for topic, partition, event in events]
    written += _copies(rng, written)
    written += [_poison(rng, partitions, span_ms, gap) for _ in range(rng.choice((0, 0, 1, 3)))]
    rules = _rules(len(written), partitions, span_ms, gap)
    # Known limit: a job that has left for the archive is not judged by a rule that is switched on or tightened then.
    written += rules if settings.job_horizon_ms == DAY_MS else _left_off(rules)
    own = random.Random(rng.random())  # drawn last: all else of a seed stays as it was
    has_budgets = own.random() < BUDGETS_RATIO
    if has_budgets:
        remembers_hours = settings.job_horizon_ms == DAY_MS
        written += _in_time(spending(own, span_ms, remembers_hours=remembers_hours), partitions)
    written += _in_time(rare_stories(own, span_ms, settings.job_horizon_ms), partitions)
    if has_budgets and settings.job_horizon_ms == DAY_MS:  # events of more than an hour ago are taken
        written += _in_time(sampled_jobs(own), partitions)
    written.sort(key=lambda one: one.append_ms)
    written += _after_gap(written, gap)
    return Script(settings, partitions, written, gap, has_budgets)


def _in_time(said: Iterable[tuple[str, str, int, Json]], partitions: int) -> list[Written]:
    found = []
    for topic, key, append_ms, event in said:
        line = Line(topic, event, partition=_partition(key, partitions))
        found.append(Written(append_ms, line, json.dumps(event).encode()))
    return found


def _after_gap(written: list[Written], gap: tuple[int, int] | None) -> list[Written]:
    """A retry for each shard of which nothing comes after nobody ran: a silent log says only slowly that time has passed."""
    if gap is None:
        return []
    last = {one.line.partition: one for one in written if one.line.topic not in REFERENCE_TOPICS}
    append_ms = max(gap[1], written[-1].append_ms) + 1_000 if written else 0
    first_ms: dict[tuple[str, bytes | None], int] = {}
    for one in written:
        first_ms.setdefault((one.line.topic, one.value), one.append_ms)
    return [
        _retried(one, first_ms[one.line.topic, one.value], append_ms)
        for one in last.values()
        if one.append_ms < gap[1]
    ]


def _retried(one: Written, first_ms: int, append_ms: int) -> Written:
    """The same record later; what was of the future may be so no more.

    An amount's id is remembered for an hour at least from its first copy on; whether it is known after that is not
    said, so it gets another.
    """
    value = one.line.value
    if not isinstance(value, dict):
        return replace(one, append_ms=append_ms)
    data = one.value
    if one.line.topic in _AMOUNTS and append_ms - first_ms > HOUR_MS:
        value = value | {"id": f"{value.get('id')} once more"}
        data = json.dumps(value).encode()
    line = replace(one.line, value=value, valid=not is_future(value, append_ms))
    return replace(one, append_ms=append_ms, line=line, value=data)


def _events(rng: random.Random, span_ms: int, partitions: int) -> list[tuple[str, int, Json]]:
    """(topic, partition, event) of some fleets; those of earlier times ended long ago."""
    found: list[tuple[str, int, Json]] = []
    ids = numbers()
    eras_ms = rng.choice(
        ((0,), (0,), (0,), (-2 * HOUR_MS, 0), (-3 * HOUR_MS, 0), (-5 * HOUR_MS, -2 * HOUR_MS, 0))
    )
    for place, era_ms in enumerate(eras_ms):
        now = place == len(eras_ms) - 1
        fleet = Fleet(rng, EPOCH_MS + era_ms, span_ms, ids)
        first_attempt = 1 + 3 * place
        for number in range(rng.randrange(1, 4)):
            job_id, attempts = f"j{number}", tuple(range(first_attempt, first_attempt + rng.randrange(1, 3)))
            where = _partition(job_id, partitions)
            if rng.random() < 0.8:
                found += [("jobs", where, e) for e in fleet.job(job_id, attempts, closed=not now)]
            for _ in range(rng.choice((0, 2, 6) if now else (0, 2))):
                sample = fleet.sample(job_id, rng.choice(attempts))
                key = sample.get("job_id") or sample["node"]
                found.append(("gpu", _partition(key, partitions), sample))
            for _ in range(rng.randrange(4)):
                topic, event = fleet.traffic(job_id, rng.choice(attempts))
                found.append((topic, where, event))
        for node in rng.sample(("n1", "n2", "n3"), rng.randrange(3)):
            found += [("nodes", _partition(node, partitions), e) for e in fleet.node(node, closed=not now)]
        found += [("prices", 0, fleet.price(rng.randrange(10))) for _ in range(rng.randrange(6))]
        if rng.random() < 0.2:
            found.append(("controls", 0, fleet.silence()))
    return found


def _rules(seed: int, partitions: int, span_ms: int, gap: tuple[int, int] | None) -> list[Written]:
    """Settings of rules, and jobs that fall under them; drawn apart, so that what else a seed writes stays as it is."""
    rng = random.Random(seed)
    fleet = Fleet(rng, EPOCH_MS, span_ms, numbers(10**6))
    events = [("controls", 0, fleet.rule()) for _ in range(rng.choice((0, 1, 3)))]
    for number in range(rng.choice((0, 1, 2))):
        job_id = f"r{number}"
        where = _partition(job_id, partitions)
        events += [("jobs", where, event) for event in fleet.retries(job_id)]
        events += [(topic, where, event) for topic, event in (fleet.traffic(job_id, 1) for _ in range(2))]
    written = [_written(rng, topic, partition, event, span_ms, gap) for topic, partition, event in events]
    # `unpriced` is off by default; of equal records the one with the smallest name wins.
    on = {"kind": "rule", "name": "zz", "rule": "unpriced", "enabled": True, "time_ms": EPOCH_MS}
    on |= fleet.identity()
    return [replace(_written(rng, "controls", 0, on, span_ms, None), append_ms=EPOCH_MS), *written]


def _left_off(rules: list[Written]) -> Iterator[Written]:
    """Those of the records that replace none by which a rule is off; what sets thresholds is in force from the beginning."""
    off: set[object] = set()
    for one in sorted(rules, key=lambda each: each.append_ms):
        value = one.line.value
        if not isinstance(value, dict):
            yield one
            continue
        if value.get("name") not in off:
            yield _retried(one, one.append_ms, EPOCH_MS) if value.get("thresholds") else one
        if value.get("enabled") is False:
            off.add(value["name"])


def _partition(key: str, partitions: int) -> int:
    return sum(key.encode()) % partitions


def _written(
    rng: random.Random, topic: str, partition: int, event: Json, span_ms: int, gap: tuple[int, int] | None
) -> Written:
    """A record; what is of the time of the run comes soon after it happened, mostly."""
    begin_ms, end_ms = EPOCH_MS, EPOCH_MS + span_ms
    time_ms: int = event["time_ms"]
    if rng.random() < 0.01:  # a clock that goes before
        event = event | {"time_ms": time_ms + 10 * MINUTE_MS}
    way = rng.random()
    if topic == "prices" and way < 0.4:  # late
        append_ms = rng.randrange(begin_ms + span_ms // 2, end_ms)
    elif begin_ms <= time_ms and way < 0.8:
        append_ms = time_ms + int(3000 * rng.random() ** 2)
    elif time_ms < begin_ms and way < 0.8:
        append_ms = begin_ms + int(
            (span_ms if time_ms > begin_ms - HOUR_MS else span_ms // 4) * rng.random() ** 2
        )
    else:
        append_ms = rng.randrange(begin_ms, end_ms)
    append_ms = min(append_ms, end_ms)
    if gap is not None and append_ms >= gap[0]:
        append_ms += gap[1] - gap[0]
        if time_ms >= gap[0] and rng.random() < 0.7:
            event = event | {"time_ms": event["time_ms"] + gap[1] - gap[0]}
    line = Line(topic, event, partition=partition, valid=not is_future(event, append_ms))
    return Written(append_ms, line, json.dumps(event).encode(), markers=int(rng.random() < 0.05))


def _copies(rng: random.Random, written: list[Written]) -> list[Written]:
    """Producers' retries, and impostors: the identity of another event with other contents."""
    found = []
    for one in rng.sample(written, min(len(written), rng.choice((0, 2, 6)))):
        append_ms = one.append_ms + rng.randrange(_COPIES_WITHIN_MS // 10)
        event = dict(one.line.value) if isinstance(one.line.value, dict) else {}
        if one.line.topic in ("jobs", "nodes") and rng.random() < 0.3:
            event |= {"gpu_count": 4, "nodes": None}
        line = replace(one.line, value=event, valid=not is_future(event, append_ms))
        if one.line.topic not in ("prices", "controls"):
            found.append(Written(append_ms, line, json.dumps(event).encode()))
    return found


def _poison(rng: random.Random, partitions: int, span_ms: int, gap: tuple[int, int] | None) -> Written:
    append_ms = EPOCH_MS + rng.randrange(span_ms)
    if gap is not None and append_ms >= gap[0]:
        append_ms += gap[1] - gap[0]
    topic = rng.choice(_TOPICS)
    partition = 0 if topic in ("prices", "controls") else rng.randrange(partitions)
    value = poison(rng, topic, append_ms)
    return Written(append_ms, Line(topic, value or b"", partition=partition, valid=False), value)
