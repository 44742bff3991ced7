"""Judges one labelled log, in whichever process, and puts together what was found on several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from loadtest.labelled.crowds import TEAM_TAKES_CLUSTER
from loadtest.labelled.world import LabelledWorld, WorldShape, make_world, write_world
from streams.backtest.fired import Backtest, Detection
from streams.backtest.labels import Label
from streams.backtest.run import BacktestRun, backtested
from streams.backtest.score import ANY_RULE, KindScore, score_kinds
from streams.config.load import load_settings
from streams.log import configure_logging


class Outcome(NamedTuple):
    """What was found on one log, or on several."""

    lines: int
    backtest: Backtest
    labels: list[Label]
    involved: list[str]  # jobs that are part of an incident and have no label of their own
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
        return Outcome(lines, run.backtest, world.labels, world.involved, scores_of(run, world))


def scores_of(run: BacktestRun, world: LabelledWorld) -> list[KindScore]:
    """What became of all labels, of jobs and of teams."""
    of_jobs = score_kinds(run.backtest, world.labels, run.costs)
    return [*of_jobs, _score_teams(run.backtest, world.team_labels)]


def _score_teams(backtest: Backtest, labels: Sequence[Label]) -> KindScore:
    """What became of the labels of teams; they are of one kind."""
    detections = []
    for label in labels:
        fired_ms = [
            alert.started_ms
            for alert in backtest.alerts
            if (alert.subject_kind, alert.subject) == ("team", label.job_id)
            and label.from_ms <= alert.started_ms < label.until_ms
        ]
        detections.append(Detection(label, min(fired_ms, default=None), Decimal(0)))
    return KindScore(TEAM_TAKES_CLUSTER, ANY_RULE, tuple(detections))


def merged(parts: Sequence[Outcome]) -> Outcome:
    """What was found on all logs; no job is in two of them."""
    detections: dict[tuple[str, str], list[Detection]] = defaultdict(list)
    names = {(score.kind, score.rule) for part in parts for score in part.scores}
    for part in parts:
        of_part = {(score.kind, score.rule): score.detections for score in part.scores}
        for kind, rule in names:
            # A rule that caught none of them here has no score.
            missed = (each._replace(first_ms=None) for each in of_part.get((kind, ANY_RULE), ()))
            detections[kind, rule] += of_part.get((kind, rule), missed)
    found = [part.backtest for part in parts]
    backtest = Backtest(
        rules="",
        alerts=tuple(alert for each in found for alert in each.alerts),
        ran_ms={job: ms for each in found for job, ms in each.ran_ms.items()},
        records_in=sum(each.records_in for each in found),
        dead_lettered=sum(each.dead_lettered for each in found),
    )
    scores = [KindScore(kind, rule, tuple(each)) for (kind, rule), each in sorted(detections.items())]
    labels = [label for part in parts for label in part.labels]
    involved = [job for part in parts for job in part.involved]
    return Outcome(sum(part.lines for part in parts), backtest, labels, involved, scores)
