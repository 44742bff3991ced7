"""What the oracle makes of the log as it lies on the broker, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tests.chaos.log import Place
from tests.chaos.stored import DeadKey
from tests.oracle.compute import compute
from tests.oracle.model import Counts, Line, Tables

_REFERENCE = ("prices", "controls")


@dataclass
class Judged:
    """The tables; dead letters by their place; the counts of the shards' topics."""

    tables: Tables = field(default_factory=Tables)
    dead: dict[DeadKey, str] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    events: int = 0


def judge(log: Mapping[Place, list[Line]], as_of_ms: int) -> Judged:
    """Compute every table of the log."""
    prices = [line for line in log["prices", 0] if line.valid]
    judged = Judged(events=sum(len(lines) for lines in log.values()))
    for topic in _REFERENCE:
        for offset, line in enumerate(log[topic, 0]):
            if not line.valid:
                judged.dead[topic, 0, offset] = "invalid"
    for number in sorted({partition for topic, partition in log if topic not in _REFERENCE}):
        _judge_partition(judged, log, number, prices, as_of_ms)
    return judged


def _judge_partition(
    judged: Judged, log: Mapping[Place, list[Line]], number: int, prices: list[Line], as_of_ms: int
) -> None:
    lines, places = list(prices), [("prices", 0, -1)] * len(prices)
    for (topic, partition), records in log.items():
        if partition == number and topic not in _REFERENCE:
            lines += records
            places += [(topic, partition, offset) for offset in range(len(records))]
    found = compute(lines, as_of_ms=as_of_ms)
    for part in fields(Tables):
        if isinstance(rows := getattr(found, part.name), dict):
            getattr(judged.tables, part.name).update(rows)
    judged.dead |= {places[index]: reason for index, reason in found.dead}
    counts = judged.counts
    judged.counts = Counts(
        counts.applied + found.counts.applied - len(prices),
        counts.duplicate + found.counts.duplicate,
        counts.too_late + found.counts.too_late,
        counts.dead_lettered + found.counts.dead_lettered,
        counts.unattributed + found.counts.unattributed,
    )
