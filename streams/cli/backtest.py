"""`trainfare backtest FILE...`: which alerts a log would have had under given rules, and how good they would have been.

It replays into a store that is thrown away, and shows what `streams.backtest` finds.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sinks.engine_installed import require_engine
from streams.cli.cycles import collect_rarely
from streams.cli.files import must_exist, read_bounded
from streams.cli.kernels import compile_kernels
from streams.cli.options import settings_for
from streams.cli.progress import progress
from streams.cli.replay import quieter
from streams.cli.rules import check_sql, read_rules
from streams.errors import WrongUseError
from streams.log import configure_logging

if TYPE_CHECKING:
    from streams.backtest.fired import RuleFile
    from streams.backtest.labels import Label
    from streams.backtest.run import BacktestRun
    from streams.cli.backtest_shown import BacktestReport
    from streams.config.settings import Settings

_LABELS = "name a CSV file with the columns job_id, kind, from_ms, until_ms"


class ReportFormat(StrEnum):
    """The output format of a report of several tables."""

    table = "table"
    json = "json"


def backtest(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSONL in log order, optionally .gz or .zst.")
    ],
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            "--rules",
            metavar="TOML",
            help="File of rules to evaluate instead of the defaults; several are shown side by side.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="CSV",
            help="Known incidents: job_id, kind, from_ms, until_ms (ms since 1970 UTC).",
        ),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", min=0, max=1000, help="How many alerts of each rule to show.")
    ] = 3,
    as_of: Annotated[
        int | None,
        typer.Option(
            "--as-of",
            metavar="MS",
            min=0,
            help="Accrue unfinished jobs up to this instant (ms since 1970 UTC).",
        ),
    ] = None,
    form: Annotated[
        ReportFormat | None, typer.Option("--format", "-f", help="table on a terminal, otherwise json.")
    ] = None,
) -> None:
    """Show which alerts a log would have had; nothing is stored or sent."""
    settings = settings_for()
    must_exist(files)
    rule_files: list[RuleFile | None] = [rule_file(path, settings) for path in rules or ()]
    known = _labels(labels)
    require_engine("a backtest, which meters into a store of its own,")
    configure_logging(quieter(settings.log))
    from streams.backtest.run import backtested  # loads Kafka, ClickHouse and the kernels
    from streams.cli.backtest_shown import as_json, as_tables

    collect_rarely()
    compile_kernels()
    reports = []
    with progress("judging", None) as advance:
        for known_rules in rule_files or [None]:
            with backtested(files, known_rules, settings, as_of, advance, advance.stage) as run:
                reports.append(_report(run, known, labels))
    shown = form or (ReportFormat.table if sys.stdout.isatty() else ReportFormat.json)
    sys.stdout.write(as_json(reports, first) if shown is ReportFormat.json else as_tables(reports, first))


def rule_file(path: Path, settings: Settings) -> RuleFile:
    """Read a file of rules as lines of a log.

    Raises:
        WrongUseError: The file cannot be read, or is not valid.
        FileFaultsError: A worker would refuse a rule by SQL.
    """
    from streams.backtest.fired import RuleFile
    from streams.replay.log_clock import FIRST_LOG_MS  # loads the engine

    records = read_rules(path, FIRST_LOG_MS)
    check_sql(path, records, settings)
    return RuleFile(str(path), tuple(b'{"topic":"controls","value":%b}' % record.value for record in records))


def _labels(path: Path | None) -> list[Label] | None:
    if path is None:
        return None
    from streams.backtest.labels import read_labels

    must_exist([path], _LABELS)
    return read_labels(read_bounded(path), path)


def _report(run: BacktestRun, labels: list[Label] | None, path: Path | None) -> BacktestReport:
    from streams.backtest.score import count_rules, noise_of, score_kinds
    from streams.cli.backtest_shown import BacktestReport

    found = run.backtest
    unknown = sorted({label.job_id for label in labels or ()} - found.ran_ms.keys())
    if unknown:
        raise WrongUseError(
            f"{path}: the log speaks of no job {unknown[0]!r} ({len(unknown)} such labelled jobs)"
        )
    labelled = {label.job_id for label in labels or ()}
    return BacktestReport(
        backtest=found,
        noise=noise_of(found),
        unlabelled=None if labels is None else noise_of(found, labelled),
        rules=count_rules(found, labels),
        kinds=[] if labels is None else score_kinds(found, labels, run.costs),
    )
