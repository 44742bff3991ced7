"""`python -m loadtest.labelled`: makes labelled logs, backtests the rules on them, and prints how well they do."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from loadtest.labelled.bounds import as_table, figures_of
from loadtest.labelled.judging import in_parts
from loadtest.labelled.outcome import Outcome, merged, run_part
from loadtest.labelled.world import LARGE, SMALL
from loadtest.saying import say
from streams.backtest.fired import JOB
from streams.backtest.score import ANY_RULE, count_rules


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all bounds hold, 1 if one is missed."""
    options = _parser().parse_args(argv)
    shape = SMALL if options.small else LARGE
    shapes = [
        replace(
            shape,
            seed=options.seed + part,
            part=f".{part}",
            clean_job_days=shape.clean_job_days / options.parts,
            incidents_each=-(-shape.incidents_each // options.parts),
        )
        for part in range(options.parts)
    ]
    began_s = time.perf_counter()
    outcome = merged(in_parts(run_part, shapes, options.processes, options.out))
    took_s = time.perf_counter() - began_s
    say(
        f"{outcome.lines:,} lines of {len(outcome.backtest.ran_ms):,} jobs, made and judged in {took_s:.0f} s"
    )
    for line in _details(outcome, options.show):
        say(line)
    figures = figures_of(outcome)
    say("\n" + as_table(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _details(outcome: Outcome, most: int) -> Iterable[str]:
    """Say what each rule did, and name some false alerts and missed incidents."""
    for count in count_rules(outcome.backtest, outcome.labels):
        is_known = count.precision is not None and count.alerts[0].subject_kind == JOB
        precision = f", {count.precision:.1%} about an incident" if is_known else ""
        yield f"{count.rule}: {count.messages} {count.severity}s{precision}"
    labelled = {*outcome.involved, *(label.job_id for label in outcome.labels)}
    false = [
        alert
        for alert in outcome.backtest.alerts
        if alert.subject_kind == JOB and alert.subject not in labelled
    ]
    for alert in false[:most]:
        yield f"false: {alert.rule}: {alert.summary}"
    for score in outcome.scores:
        caught = sum(each.first_ms is not None for each in score.detections)
        yield f"{score.kind}: {caught} of {len(score.detections)} by {score.rule}"
        missed = [each.label.job_id for each in score.detections if each.first_ms is None]
        if score.rule == ANY_RULE and missed:
            yield f"missed: {', '.join(missed[:most])}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.labelled", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="other seeds, another fleet")
    parser.add_argument(
        "--parts", type=int, default=4, help="so many logs, each with its share and a seed of its own"
    )
    parser.add_argument("--processes", type=int, default=2, help="how many of them at once")
    parser.add_argument("--small", action="store_true", help="a small fleet, as in the tests")
    parser.add_argument("--out", type=Path, help="keep logs and labels in this directory")
    parser.add_argument("--show", type=int, default=10, help="how many false and missed ones to name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
