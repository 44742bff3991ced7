"""`trainfare replay FILE...`: meters files with everything embedded, until all is stored."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.cycles import collect_rarely
from streams.cli.files import must_exist
from streams.cli.kernels import compile_kernels
from streams.cli.options import require_store, settings_for
from streams.cli.output import OutputFormat, write_summary
from streams.cli.progress import progress
from streams.config.settings import LogSettings, Settings
from streams.errors import FileFaultsError, TrainfareError, WrongUseError
from streams.log import configure_logging

if TYPE_CHECKING:
    from streams.replay.result import ReplayResult

_MILLIONTH = Decimal("0.000001")


def replay(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSONL in log order, optionally .gz or .zst.")
    ],
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Directory of the ledger; created if missing.")
    ],
    as_of: Annotated[
        int | None,
        typer.Option(
            "--as-of",
            metavar="MS",
            min=0,
            help="Accrue unfinished jobs up to this instant (ms since 1970 UTC).",
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add other files to a directory in use.")] = False,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Shards; the result does not depend on it.")
    ] = None,
    deliver: Annotated[
        bool,
        typer.Option("--deliver", help="Send the alerts to their owners; by default they are only stored."),
    ] = False,
    form: Annotated[
        OutputFormat | None, typer.Option("--format", "-f", help="table on a terminal, otherwise json.")
    ] = None,
) -> None:
    """Meter event files; replaying the same files resumes, or changes nothing."""
    settings = settings_for(data, meter__as_of_ms=as_of, kafka__partitions=partitions)
    must_exist(files)
    if deliver:
        _must_send(settings)
    require_store(settings)
    configure_logging(quieter(settings.log))
    from streams.replay.replay import run_replay  # loads Kafka, ClickHouse and the kernels

    collect_rarely()
    compile_kernels()
    with progress("metering", None) as advance:
        result = run_replay(
            files,
            data,
            as_of,
            append,
            settings,
            advance,
            deliver=deliver,
            keeps_days=True,
            heard=advance.stage,
        )
    failed = [
        f"{each.rule} could not be judged {each.times} times, at last because {each.reason}"
        for each in result.failed_rules
    ]
    for sentence in (*result.clocks_ahead, *result.ignored_fields, *failed):
        sys.stderr.write(f"trainfare: {sentence}\n")
    _show(result, form or (OutputFormat.table if sys.stdout.isatty() else OutputFormat.json))
    if not result.balanced:
        raise TrainfareError(
            f"the books of {data} do not balance: {result.records_in} records in, but {result.applied} applied + "
            f"{result.unattributed} unattributed + {result.duplicate} duplicate + {result.too_late} too late + {result.dead_lettered} dead-lettered"
        )
    if result.control_faults:
        raise FileFaultsError(
            [f"{fault} (this control has no effect)" for fault in result.control_faults]
            + ["everything else is metered; mend these and replay the log into an empty directory"]
        )


def _must_send(settings: Settings) -> None:
    from streams.notify.channels.channels import can_send  # loads aiohttp
    from streams.notify.from_settings import notifier_options

    if not can_send(notifier_options(settings)):
        raise WrongUseError(
            "--deliver: nothing can be signed; give TRAINFARE_ALERTS_WEBHOOK_SECRET (whsec_...)"
        )


def quieter(log: LogSettings) -> LogSettings:
    """Raise the log level: the progress bar shows what `info` lines would."""
    return log.model_copy(update={"level": "warning"}) if log.level == "info" else log


def _show(result: ReplayResult, form: OutputFormat) -> None:
    summary = {
        "records_in": result.records_in,
        "applied": result.applied,
        "unattributed": result.unattributed,
        "duplicate": result.duplicate,
        "dead_lettered": result.dead_lettered + result.too_late,
        "jobs": result.jobs,
        "gpu_hours": result.gpu_hours.quantize(_MILLIONTH),
        "usd": result.usd,
        "unpriced_gpu_hours": result.unpriced_gpu_hours.quantize(_MILLIONTH),
        "capped_costs": result.capped_costs,
        "too_late": result.too_late,
        "seconds": result.seconds,
        "rows_written": result.rows,
        "rows_per_second": round(result.rows / result.seconds) if result.seconds else 0,
        "balanced": result.balanced,
    }
    labels = {
        "gpu_hours": "GPU hours",
        "usd": "dollars",
        "too_late": "dead letters that came too late",
        "unpriced_gpu_hours": "unpriced GPU hours",
        "balanced": "books balance",
    }
    write_summary(summary, labels, form)
