"""`python -m loadtest.labelled`: makes the labelled log, backtests the rules on it, and prints how well they do.

It must not pass a bound that is missed: the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loadtest.labelled.bounds import as_table, caught_figures, clean_figures
from loadtest.labelled.world import LARGE, SMALL, make_world, write_world
from loadtest.saying import say
from streams.backtest.run import backtested
from streams.backtest.score import count_rules, score_kinds
from streams.config.load import load_settings
from streams.log import configure_logging


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 if all bounds hold, 1 if one is missed."""
    options = _parser().parse_args(argv)
    # In one shard: each of them judges every tick by itself.
    settings = load_settings({}, overrides={"kafka.partitions": 1})
    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    shape = replace(SMALL if options.small else LARGE, seed=options.seed)
    with tempfile.TemporaryDirectory(prefix="trainfare-labelled-") as temporary:
        directory = Path(temporary) if options.out is None else options.out
        directory.mkdir(parents=True, exist_ok=True)
        log, labels = directory / "labelled.jsonl.gz", directory / "labels.csv"
        began_s = time.perf_counter()
        world = make_world(shape)
        lines = write_world(world, log, labels)
        say(f"{lines:,} lines, {world.clean_job_days:,.0f} clean job-days, {len(world.labels)} incidents")
        say(f"made in {time.perf_counter() - began_s:.0f} s, {log.stat().st_size / 2**20:.1f} MiB")
        if options.only_make:
            return 0
        began_s = time.perf_counter()
        with backtested([log], None, settings) as run:
            say(f"replayed in {time.perf_counter() - began_s:.0f} s")
            scores = score_kinds(run.backtest, world.labels, run.costs)
            figures = [*clean_figures(run.backtest, world.labels), *caught_figures(scores)]
            for count in count_rules(run.backtest, world.labels):
                precision = "" if count.precision is None else f", {count.precision:.1%} about an incident"
                say(f"{count.rule}: {count.messages} {count.severity}s{precision}")
            clean = [x for x in run.backtest.alerts if x.subject.startswith("clean-")]
            for alert in clean[: options.show]:
                say(f"clean: {alert.rule}: {alert.summary}")
            for score in scores:
                missed = [x.label.job_id for x in score.caught if x.first_ms is None]
                if score.rule == "any rule" and missed:
                    say(f"missed: {score.kind}: {', '.join(missed[: options.show])}")
    say(as_table(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.labelled", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="another seed, another fleet")
    parser.add_argument("--small", action="store_true", help="the small version of the tests")
    parser.add_argument("--out", type=Path, help="keep log and labels in this directory")
    parser.add_argument("--only-make", action="store_true", help="write log and labels, and stop")
    parser.add_argument("--show", type=int, default=10, help="how many false and missed ones to name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
