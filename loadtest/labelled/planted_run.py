"""`python -m loadtest.labelled.planted_run`: which planted faults the shipped rules tell of, how soon, and how often."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from loadtest.labelled.judging import in_parts, judged
from loadtest.labelled.ordinary import OrdinaryShape, make_events
from loadtest.labelled.planted import FAULTS, Planted, plant
from loadtest.saying import say
from schemas.durations import HOUR_MS, MINUTE_MS
from streams.backtest.fired import FiredAlert

#: The share of the faults of each kind that must be caught in time, and told once.
BOUND: Final = 0.97
#: A rule may tell of a fault so long after its end.
_AFTER_MS: Final = 2 * HOUR_MS
_OTHERS: Final = "none planted"


class Fault(NamedTuple):
    """What was told of one fault: alerts about what it is about, in order, without those that sent nothing."""

    planted: Planted  # without its events
    told: tuple[FiredAlert, ...]

    @property
    def names_cause(self) -> bool:
        """Whether the first message is of a rule that is there for it, and names what has it."""
        first = self.told[0]
        return first.rule in self.planted.rules and any(name in first.summary for name in self.planted.names)

    @property
    def caught(self) -> bool:
        """Whether it was told in time, with its cause."""
        of = self.planted
        return bool(self.told) and self.told[0].started_ms <= of.due_ms + of.within_ms and self.names_cause

    @property
    def messages(self) -> int:
        """How many messages there were."""
        return sum(alert.messages for alert in self.told)


class PlantedShape(NamedTuple):
    """How many faults of each kind, among how many days of a fleet of ordinary work."""

    each: int
    days: int
    seed: int


class Found(NamedTuple):
    """What was told of a log, or of several: of each fault, and of what has none."""

    faults: list[Fault]
    others: list[FiredAlert]
    lines: int


def run_part(shape: PlantedShape, directory: Path) -> Found:
    """Make a log and judge it."""
    planted = [*plant(shape.seed, shape.days, shape.each)]
    more = [event for each in planted for event in each.events]
    events = make_events(OrdinaryShape(shape.days, 1, shape.seed, f".{shape.seed}"), more)
    planted = [each._replace(events=()) for each in planted]
    with judged(events, directory / f"planted-{shape.seed}.jsonl.gz") as run:
        return found_in(run.backtest.alerts, planted, len(events))


def found_in(alerts: Sequence[FiredAlert], planted: Sequence[Planted], lines: int) -> Found:
    """Which alerts are about which fault; one that began before it is about none."""
    of_subject = {name: place for place, each in enumerate(planted) for name in each.subjects}
    told: dict[int, list[FiredAlert]] = {}
    others = []
    for alert in alerts:
        place = of_subject.get(alert.subject)
        if place is None or not _is_about(alert, planted[place]):
            others.append(alert)
        else:
            told.setdefault(place, []).append(alert)
    faults = [
        Fault(each, tuple(alert for alert in told.get(place, ()) if alert.messages))
        for place, each in enumerate(planted)
    ]
    return Found(faults, [alert for alert in others if alert.messages], lines)


def _is_about(alert: FiredAlert, fault: Planted) -> bool:
    return fault.from_ms <= alert.started_ms < fault.until_ms + _AFTER_MS


def merged(parts: Sequence[Found]) -> Found:
    """What was told of all logs."""
    return Found(
        [fault for part in parts for fault in part.faults],
        [alert for part in parts for alert in part.others],
        sum(part.lines for part in parts),
    )


def shares(faults: Sequence[Fault]) -> tuple[float, float]:
    """The share that was caught in time, and the one of which there was exactly one message."""
    return (
        sum(fault.caught for fault in faults) / len(faults),
        sum(fault.messages == 1 for fault in faults) / len(faults),
    )


def by_kind(found: Found) -> Mapping[str, list[Fault]]:
    """The faults of each kind that was planted."""
    kinds: dict[str, list[Fault]] = {kind: [] for kind in FAULTS}
    for fault in found.faults:
        kinds[fault.planted.kind].append(fault)
    return {kind: faults for kind, faults in kinds.items() if faults}


def as_table(found: Found) -> Iterator[str]:
    """The lines of the table of docs/backtests.md."""
    yield "| fault | planted | caught in time | one message | further messages | minutes after it began | after the rule's wait |"
    yield "|---|---|---|---|---|---|---|"
    for kind, faults in by_kind(found).items():
        first = [fault for fault in faults if fault.told]
        more: dict[str, int] = {}
        for fault in first:
            for place, alert in enumerate(fault.told):
                count = alert.messages - (place == 0)
                if count:
                    more[alert.rule] = more.get(alert.rule, 0) + count
        extra = ", ".join(f"`{rule}` {count}" for rule, count in sorted(more.items()))
        began = _minutes([fault.told[0].started_ms - fault.planted.from_ms for fault in first])
        waited = _minutes([fault.told[0].started_ms - fault.planted.due_ms for fault in first])
        caught, once = (
            sum(values) for values in zip(*((f.caught, f.messages == 1) for f in faults), strict=True)
        )
        yield f"| `{kind}` | {len(faults)} | {caught} | {once} | {extra} | {began} | {waited} |"


def _minutes(delays_ms: Sequence[int]) -> str:
    """Half of the delays, and 95 % of them, are no longer."""
    if not delays_ms:
        return ""
    median, p95 = np.percentile(np.array(delays_ms, np.float64) / MINUTE_MS, (50, 95))
    return f"{median:.0f}, p95 {p95:.0f}"


def details(found: Found) -> Iterator[str]:
    """Each fault that was missed, told late or told twice, and what was told of no fault."""
    for fault in found.faults:
        of = fault.planted
        if fault.caught and fault.messages == 1:
            continue
        why = "missed" if not fault.told else "late or unnamed" if not fault.caught else "more than one"
        yield f"{why}: {of.kind} {min(of.names)}, due {(of.due_ms - of.from_ms) // MINUTE_MS} min after it began, until {(of.until_ms - of.from_ms) // MINUTE_MS}"
        for alert in fault.told:
            after = (alert.started_ms - of.from_ms) // MINUTE_MS
            yield f"    {after} min: {alert.severity} {alert.rule} x{alert.messages}: {alert.summary}"
    for alert in found.others:
        yield f"{_OTHERS}: {alert.severity} {alert.rule} x{alert.messages}: {alert.summary}"


def main(argv: Sequence[str] | None = None) -> int:
    """0 if the bounds hold for each kind of fault, 1 if one is missed."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.labelled.planted_run", description=__doc__)
    parser.add_argument(
        "--parts", type=int, default=10, help="so many logs, each with its share of the faults"
    )
    parser.add_argument("--each", type=int, default=6, help="faults of each kind in a log")
    parser.add_argument("--days", type=int, default=2, help="how long the ordinary fleet of a log is watched")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="other seeds, other faults")
    options = parser.parse_args(argv)
    shapes = [PlantedShape(options.each, options.days, options.seed + part) for part in range(options.parts)]
    began_s = time.perf_counter()
    found = merged(in_parts(run_part, shapes, options.processes))
    say(f"{found.lines:,} lines, made and judged in {time.perf_counter() - began_s:.0f} s")
    for line in details(found):
        say(line)
    say("\n" + "\n".join(as_table(found)))
    return 0 if all(min(shares(faults)) >= BOUND for faults in by_kind(found).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
