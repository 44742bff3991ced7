"""Judges one labelled log, in whichever process, and puts together what was found on several.

It must not decide whether that is good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loadtest.labelled.world import WorldShape, make_world, write_world
from streams.backtest.fired import Backtest, Caught
from streams.backtest.labels import Label
from streams.backtest.run import backtested
from streams.backtest.score import KindScore, score_kinds
from streams.config.load import load_settings
from streams.log import configure_logging


class Outcome(NamedTuple):
    """What was found on one log, or on several."""

    lines: int
    backtest: Backtest
    labels: list[Label]
    scores: list[KindScore]


def run_part(shape: WorldShape, directory: Path) -> Outcome:
    """Make a log and judge it; both files stay in the directory."""
    # In one shard: each of them judges every tick by itself.
    settings = load_settings({}, overrides={"kafka.partitions": 1})
    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    log, labels = directory / f"labelled{shape.part}.jsonl.gz", directory / f"labels{shape.part}.csv"
    world = make_world(shape)
    lines = write_world(world, log, labels)
    with backtested([log], None, settings) as run:
        return Outcome(lines, run.backtest, world.labels, score_kinds(run.backtest, world.labels, run.costs))


def merged(parts: Sequence[Outcome]) -> Outcome:
    """Return what was found on all logs; no job is in two of them."""
    caught: dict[tuple[str, str], list[Caught]] = defaultdict(list)
    for part in parts:
        for score in part.scores:
            caught[score.kind, score.rule] += score.caught
    found = [part.backtest for part in parts]
    backtest = Backtest(
        rules="",
        alerts=tuple(alert for each in found for alert in each.alerts),
        ran_ms={job: ms for each in found for job, ms in each.ran_ms.items()},
        records_in=sum(each.records_in for each in found),
        dead_lettered=sum(each.dead_lettered for each in found),
    )
    scores = [KindScore(kind, rule, tuple(each)) for (kind, rule), each in sorted(caught.items())]
    labels = [label for part in parts for label in part.labels]
    return Outcome(sum(part.lines for part in parts), backtest, labels, scores)
