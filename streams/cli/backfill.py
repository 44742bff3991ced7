"""`trainfare backfill FILE...`: meters past events into the store of a live meter, and says what it left out."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.cycles import collect_rarely
from streams.cli.files import must_exist
from streams.cli.kernels import compile_kernels
from streams.cli.options import DataOption, require_store, settings_for
from streams.cli.output import Grid, OutputFormat, say_none, write, write_summary
from streams.cli.progress import progress
from streams.cli.replay import quieter
from streams.clock import SystemClock
from streams.config.settings import Settings
from streams.costs.unpriced_gpus import types_said
from streams.errors import TrainfareError, WrongUseError
from streams.log import configure_logging

if TYPE_CHECKING:
    from streams.backfill.backfill import Callbacks
    from streams.backfill.result import BackfillResult
    from streams.backfill.runs import BackfillRun
    from streams.clock import Clock

_MILLIONTH: Final = Decimal("0.000001")
_NICER: Final = 10
_SLURM: Final = Path("slurm")
_NAMES_SHOWN: Final = 3


def backfill(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...|slurm",
            help="JSONL in any order, optionally .gz or .zst; or the word slurm: what sacct has.",
        ),
    ] = None,
    data: DataOption = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave out jobs with events at or after it: ms since 1970 or ISO 8601, UTC. Default: 24 h ago (job_horizon).",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With slurm: take what ended after it, and pay from it on."),
    ] = None,
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="With slurm: TOML file with a table [slurm].")
    ] = Path("collect.toml"),
    events: Annotated[
        Path | None,
        typer.Option(
            "--events", metavar="FILE", help="With slurm: where its events are written; reused if it exists."
        ),
    ] = None,
    full_speed: Annotated[
        bool,
        typer.Option("--full-speed", help="Do not leave the store to others for four fifths of the time."),
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the backfills of the store.")] = False,
    undo: Annotated[
        int | None, typer.Option("--undo", metavar="N", min=1, help="Delete all that backfill N stored.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --undo: do not ask.")] = False,
    form: Annotated[
        OutputFormat | None, typer.Option("--format", "-f", help="table on a terminal, otherwise json.")
    ] = None,
) -> None:
    """Meter past events beside the live log: jobs that are over and not metered yet. Run it again to resume."""
    given = files or []
    if sum((bool(given), listed, undo is not None)) != 1:
        raise WrongUseError("give files of events, or --list, or --undo N; see `trainfare backfill --help`")
    if until is not None and not given:
        raise WrongUseError("--until goes with files of events, or slurm")
    is_slurm = given == [_SLURM]
    if is_slurm == (since is None):
        raise WrongUseError(
            "slurm needs --since, e.g. --since 2026-01-01"
            if is_slurm
            else "--since goes with slurm; of files all events are taken that are not left out"
        )
    settings = settings_for(data)
    if not is_slurm:
        must_exist(given)
    form = form or (OutputFormat.table if sys.stdout.isatty() else OutputFormat.json)
    require_store(settings)
    configure_logging(quieter(settings.log))
    if listed:
        _list(settings, form)
    elif undo is not None:
        if (
            sys.stdin.isatty()
            and not yes
            and not typer.confirm(f"Delete all that backfill {undo} stored?", err=True)
        ):
            raise TrainfareError("nothing was deleted")
        _undo(settings, undo)
    else:
        until_ms = None if until is None else _instant_ms(until)
        if since is not None:
            from streams.cli.backfill_slurm import slurm_events, until_default_ms

            now_ms = SystemClock().now_ms()
            if until_ms is None:
                until_ms = until_default_ms(now_ms, settings.meter.job_horizon_ms)
            given = [slurm_events(config, _instant_ms(since), min(until_ms, now_ms), events)]
            must_exist(given)
        result = _metered(given, settings, until_ms, full_speed=full_speed)
        names = ", ".join(each.name for each in given)
        _put_on_record(settings, "backfill", result.run, names, result.counts.lines)
        _show(result, form)
        if result.unpriced_gpu_hours:
            sys.stderr.write(f"trainfare: {_mend_of_unpriced(result, settings)}\n")


def _mend_of_unpriced(result: BackfillResult, settings: Settings) -> str:
    """What gives GPU-hours their price; a directory has no worker that takes it from a log."""
    hours, data = result.unpriced_gpu_hours.quantize(_MILLIONTH).normalize(), settings.clickhouse.data_dir
    loaded = (
        "`trainfare prices load FILE`"
        if data is None
        else f"`trainfare prices load FILE --out prices.jsonl`, `trainfare backfill prices.jsonl --data {data}`"
    )
    types = ((name, each.quantize(_MILLIONTH).normalize()) for name, each in result.unpriced_types)
    return f"{hours:,f} GPU-hours have no price, {types_said(types)}: {loaded}, then this command again (docs/backfill.md, Prices)"


def _instant_ms(text: str) -> int:
    from streams.cli.recount import instant_ms  # loads Kafka clients and the kernels

    return instant_ms(text)


def _metered(
    files: list[Path], settings: Settings, until_ms: int | None, *, full_speed: bool
) -> BackfillResult:
    from streams.backfill.backfill import run_backfill
    from streams.from_settings import open_store  # loads ClickHouse and the kernels
    from streams.worker.storing.balances import WORTH_KEEPING, keep_settled

    collect_rarely()
    compile_kernels()
    if not full_speed:
        os.nice(_NICER)
    clock = SystemClock()
    store = open_store(settings.clickhouse)
    try:
        with ExitStack() as shown:
            is_shared = settings.clickhouse.data_dir is None and not full_speed
            callbacks = _callbacks(shown, clock, is_shared=is_shared)
            result = run_backfill(files, store, settings, clock, until_ms, callbacks)
        if settings.clickhouse.data_dir is not None:
            # Beside a server a worker keeps days ready; nobody else can open a directory.
            keep_settled(store, WORTH_KEEPING)
        return result
    finally:
        store.close()


def _callbacks(shown: ExitStack, clock: Clock, *, is_shared: bool) -> Callbacks:
    """What shows two bars, one after the other."""
    from streams.backfill.backfill import Callbacks
    from streams.backfill.pace import BackfillPace

    reading, metering = shown.enter_context(ExitStack()), ExitStack()
    shown.push(metering)
    bars = [reading.enter_context(progress("reading", None))]

    def begin(events: int) -> None:
        reading.close()
        bars.append(metering.enter_context(progress("metering", events, in_lines=True)))

    return Callbacks(
        read=lambda lines: bars[0](lines),
        begin=begin,
        metered=lambda events: bars[-1](events),
        rest=BackfillPace(clock, time.sleep) if is_shared else lambda: None,
    )


def _show(result: BackfillResult, form: OutputFormat) -> None:
    counts, books = result.counts, result.books
    summary = {
        "backfill": result.run.number,
        "lines": counts.lines,
        "applied": books.applied,
        "unattributed": books.unattributed,
        "duplicate": books.duplicate,
        "too_late": books.too_late,
        "dead_lettered": books.dead_lettered + counts.refused.dead_lettered,
        "left_out": sum(each.events for each in counts.left_out) + counts.after_until,
        "prices": counts.prices,
        "prices_replaced": counts.prices_replaced,
        "controls_not_applied": counts.controls,
        "jobs": result.jobs,
        "gpu_hours": result.gpu_hours.quantize(_MILLIONTH),
        "usd": result.usd,
        "unpriced_gpu_hours": result.unpriced_gpu_hours.quantize(_MILLIONTH),
        "seconds": result.seconds,
        "rows_written": result.rows,
        "balanced": result.balanced,
    }
    left_out = [
        {
            "reason": each.reason,
            "jobs": each.jobs,
            "nodes": each.nodes,
            "events": each.events,
            "names": each.names,
        }
        for each in counts.left_out
    ]
    labels = {
        "gpu_hours": "GPU hours",
        "usd": "dollars",
        "unpriced_gpu_hours": "unpriced GPU hours",
        "prices_replaced": "of the prices replaced by the store's",
        "balanced": "every line accounted for",
    }
    reasons = {"reasons": left_out} if form is OutputFormat.json else {}
    write_summary(summary | reasons, labels, form)
    if left_out and form is OutputFormat.table:
        rows = [
            (each.reason, each.jobs, each.nodes, each.events, _names(each.names, each.jobs + each.nodes))
            for each in counts.left_out
        ]
        sys.stdout.write("\n")
        write(Grid(("left out", "jobs", "nodes", "events", "names"), rows), form)
    if not result.balanced:
        raise TrainfareError(
            f"the lines do not add up: {how_many(counts.lines, 'line')}, but {books.records_in} metered + {counts.outside} left out or "
            "refused; please report it with the first lines of the files"
        )


def _names(names: list[str], count: int) -> str:
    rest = f" and {count - _NAMES_SHOWN:,} more" if count > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + rest


def _list(settings: Settings, form: OutputFormat) -> None:
    from streams.backfill.runs import Runs
    from streams.from_settings import open_store

    store = open_store(settings.clickhouse)
    try:
        runs = Runs(store.meta).all
    finally:
        store.close()
    rows = [
        (run.number, _state(run), run.counts.lines, run.until_ms, visible(", ".join(run.names)))
        for run in runs
    ]
    say_none(rows, form, "nothing was backfilled: `trainfare backfill FILE`")
    write(Grid(("backfill", "state", "lines", "until_ms", "files"), rows), form)


def _state(run: BackfillRun) -> str:
    return "taken back" if run.undone else "ended" if run.done else "not ended"


def _put_on_record(settings: Settings, act: str, run: BackfillRun, what: str, count: int) -> None:
    from streams.cli.deeds import put_on_record

    own_log = settings.clickhouse.data_dir is not None
    put_on_record(settings, act, str(run.number), what, count, own_log=own_log)


def _undo(settings: Settings, number: int) -> None:
    from schemas.tables import SCHEMAS
    from streams.backfill.undo import undo
    from streams.from_settings import open_store

    store = open_store(settings.clickhouse)
    try:
        with progress("deleting", len(SCHEMAS)) as advance:
            run = undo(store, number, advance)
    finally:
        store.close()
    _put_on_record(settings, "undo", run, f"backfill {run.number} is taken back", 1)
    sys.stdout.write(
        f"backfill {run.number} is taken back: its jobs may be backfilled again; prices of its files stay\n"
    )
