"""`python -m loadtest.labelled.ordinary_run`: what the shipped rules say of a fleet of ordinary work, by kind of work."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.labelled.judging import in_parts, judged
from loadtest.labelled.ordinary import KINDS, OrdinaryShape, make_events
from loadtest.saying import say
from schemas.durations import DAY_MS
from streams.backtest.fired import JOB, PAGE, TICKET

#: Messages per job-day that people put up with.
BOUNDS: Final = {PAGE: 0.01, TICKET: 0.05}
#: What is about no job: nodes, prices, teams.
OTHERS: Final = "others"


class Told(NamedTuple):
    """What was told of one fleet, or of several: run time (ms) and messages by kind of work; one sentence of each rule."""

    ran_ms: Counter[str]
    messages: Counter[tuple[str, str]]  # by kind and severity
    by_rule: Counter[tuple[str, str, str]]  # by kind, severity and rule
    examples: dict[tuple[str, str, str], str]
    lines: int

    @property
    def job_days(self) -> float:
        """The run time of all jobs, in days."""
        return self.ran_ms.total() / DAY_MS


def run_part(shape: OrdinaryShape, directory: Path) -> Told:
    """Make a log and judge it."""
    events = make_events(shape)
    told = Told(Counter(), Counter(), Counter(), {}, len(events))
    with judged(events, directory / f"ordinary{shape.part}.jsonl.gz") as run:
        for job_id, ran_ms in run.backtest.ran_ms.items():
            told.ran_ms[kind_of(job_id)] += ran_ms
        for alert in run.backtest.alerts:
            kind = kind_of(alert.subject) if alert.subject_kind == JOB else OTHERS
            told.messages[kind, alert.severity] += alert.messages
            told.by_rule[kind, alert.severity, alert.rule] += alert.messages
            told.examples.setdefault((kind, alert.severity, alert.rule), alert.summary)
    return told


def kind_of(job_id: str) -> str:
    """The kind of an ordinary job, which its name begins with."""
    return job_id.partition("-")[0]


def merged(parts: Iterable[Told]) -> Told:
    """What was told of all fleets."""
    whole = Told(Counter(), Counter(), Counter(), {}, 0)
    for part in parts:
        whole.ran_ms.update(part.ran_ms)
        whole.messages.update(part.messages)
        whole.by_rule.update(part.by_rule)
        whole = whole._replace(examples=part.examples | whole.examples, lines=whole.lines + part.lines)
    return whole


def per_day(told: Told, severity: str) -> float:
    """Messages per job-day of all kinds, those about no job among them."""
    return sum(count for (_, of), count in told.messages.items() if of == severity) / told.job_days


def as_table(told: Told) -> Iterator[str]:
    """The lines of the table of docs/backtests.md."""
    yield "| kind | job-days | pages | tickets | rules |"
    yield "|---|---|---|---|---|"
    for kind in (*KINDS, OTHERS):
        days = told.ran_ms[kind] / DAY_MS
        rules = ", ".join(
            f"`{rule}` {count}" for (of, _, rule), count in sorted(told.by_rule.items()) if of == kind
        )
        pages, tickets = (told.messages[kind, severity] for severity in (PAGE, TICKET))
        yield f"| {kind} | {days:,.1f} | {pages} | {tickets} | {rules} |"
    rates = " | ".join(f"{per_day(told, severity):.4f} a job-day" for severity in (PAGE, TICKET))
    bounds = ", ".join(f"<= {bound:g}" for bound in BOUNDS.values())
    yield f"| all | {told.job_days:,.1f} | {rates} | bounds: {bounds} |"


def main(argv: Sequence[str] | None = None) -> int:
    """0 if both bounds hold, 1 if one is missed."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.labelled.ordinary_run", description=__doc__)
    parser.add_argument(
        "--fleets", type=int, default=15, help="so many, each of about 140 job-days in three weeks"
    )
    parser.add_argument("--days", type=int, default=21, help="how long each is watched")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="other seeds, other fleets")
    options = parser.parse_args(argv)
    shapes = [
        OrdinaryShape(options.days, 1, options.seed + part, f".{part}") for part in range(options.fleets)
    ]
    began_s = time.perf_counter()
    told = merged(in_parts(run_part, shapes, options.processes))
    say(f"{told.lines:,} lines, made and judged in {time.perf_counter() - began_s:.0f} s")
    for (kind, severity, rule), sentence in sorted(told.examples.items()):
        say(f"{severity} of {kind}: {rule}: {sentence}")
    say("\n" + "\n".join(as_table(told)))
    return 0 if all(per_day(told, severity) <= bound for severity, bound in BOUNDS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
