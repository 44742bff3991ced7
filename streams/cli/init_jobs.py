"""Waits for the first priced job of a new meter, and shows it beside what the scheduler says."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

from schemas.durations import MINUTE_MS
from schemas.escaping import visible
from schemas.events import PriceEvent
from schemas.units import NANO_PER_USD
from sinks.errors import SinkError
from streams.cli.faults import FAILED
from streams.cli.output import Grid, OutputFormat, write
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.collect.collector import SourceUnavailableError
from streams.collect.registry import options_of
from streams.collect.slurm.options import Options
from streams.config.load import load_settings
from streams.config.settings import Settings
from streams.engine.pricing.book import PriceBook
from streams.errors import TrainfareError
from streams.init.of_slurm import ask
from streams.init.plan import COLLECT_FILE, PRICES_FILE, SETTINGS_FILE
from streams.init.scheduler_figures import SlurmFigures, slurm_figures
from streams.init.starting import Pause
from streams.init.surroundings import Surroundings

_LOOK_EVERY_S: Final = 2.0
#: Once a job has a cost, so long is waited for one that has ended.
_FOR_AN_END_MS: Final = 30_000
_SHOWN: Final = 5
_OF_SLURM: Final = ("sacct gpu s", "sacct x price usd", "")
_JOBS: Final = f"""
SELECT job_id, state, gpu_s, cost_usd, ended IS NOT NULL AS has_ended FROM job_costs
WHERE gpu_s > 0 ORDER BY ended IS NULL, ended, job_id LIMIT {_SHOWN}"""  # noqa: S608 - of constants
_LACKING: Final = """
SELECT gpu_type, sum(unpriced_gpu_milli_ms) / 3600000000 AS gpu_h, any(job_id) AS job FROM job_hours FINAL
WHERE unpriced_gpu_milli_ms > 0 GROUP BY gpu_type ORDER BY gpu_h DESC LIMIT 20"""


class _Seen(NamedTuple):
    """What the meter has of the first jobs, and what of all jobs has no price."""

    jobs: Sequence[Mapping[str, Any]]
    lacking: Sequence[Mapping[str, Any]]


def show_first_jobs(
    found: Surroundings, directory: Path, prices: Sequence[PriceEvent], wait_s: int, pause: Pause
) -> None:
    """Wait for the first priced job, and show it.

    Raises:
        TrainfareError: The meter does not answer.
        Exit: A job has GPU-time without a price, or costs something else than the scheduler says; with 1.
    """
    sys.stdout.write(f"waiting up to {wait_s} s for the first priced job\n")
    sys.stdout.flush()
    seen = _seen_within(load_settings(os.environ, directory / SETTINGS_FILE), wait_s, pause)
    if not seen.jobs:
        sys.stdout.write(
            "no job has held a GPU yet: the cost of the first one will be in the list of the command above\n"
        )
    differs = _show(seen.jobs, found, directory, prices)
    for row in seen.lacking:
        gpu_type, job = visible(str(row["gpu_type"])), shlex.quote(visible(str(row["job"])))
        sys.stdout.write(
            f"without a price: {Decimal(str(row['gpu_h'])):.3f} GPU-hours of {gpu_type or '(no type)'}, e.g. of job {job}:"
            f" trainfare explain {job} shows its price fields; a line with them in {PRICES_FILE} prices it\n"
        )
    if seen.lacking or differs:
        raise typer.Exit(FAILED)


def _seen_within(settings: Settings, wait_s: int, pause: Pause) -> _Seen:
    """What the meter has once a job has ended and all is priced, or when the time is up."""
    clock = SystemClock()
    until_ms = clock.monotonic_ms() + wait_s * 1000
    is_seen = False
    while True:
        try:
            with reader(settings) as store:
                seen = _Seen(store.records(_JOBS), store.records(_LACKING))
        except (TrainfareError, SinkError):  # a machine that is busy with its first jobs
            if clock.monotonic_ms() >= until_ms:
                raise
            pause(_LOOK_EVERY_S)
            continue
        now_ms = clock.monotonic_ms()
        if seen.jobs and not is_seen:
            is_seen = True
            until_ms = min(until_ms, now_ms + _FOR_AN_END_MS)
        if now_ms >= until_ms or (any(job["has_ended"] for job in seen.jobs) and not seen.lacking):
            return seen
        pause(_LOOK_EVERY_S)


def _show(
    jobs: Sequence[Mapping[str, Any]], found: Surroundings, directory: Path, prices: Sequence[PriceEvent]
) -> bool:
    """Show the jobs, beside Slurm's accounting where it is Slurm; return whether one that has ended differs."""
    options = options_of(found.source, directory / COLLECT_FILE)
    book = PriceBook.empty().with_events(prices)
    rows, differs = [], False
    for job in jobs:
        figures = _of_slurm(str(job["job_id"]), options, book) if isinstance(options, Options) else None
        cost = Decimal(str(job["cost_usd"]))
        cells: list[str] = [""] * len(_OF_SLURM) if isinstance(options, Options) else []
        if figures is not None:
            said = Decimal(figures.cost_nano) / NANO_PER_USD
            verdict = _verdict(cost, said, figures, has_ended=bool(job["has_ended"]))
            differs |= verdict == "differs"
            cells = [f"{Decimal(figures.gpu_milli_ms) / 1_000_000:.0f}", f"{said:.9f}", verdict]
        rows.append((job["job_id"], job["state"], f"{Decimal(str(job['gpu_s'])):.0f}", f"{cost:.9f}", *cells))
    if rows:
        names = ("job", "state", "metered gpu s", "metered usd")
        both = (*names, *_OF_SLURM) if isinstance(options, Options) else names
        write(Grid(both, rows), OutputFormat.table)
    return differs


def _of_slurm(job_id: str, options: Options, book: PriceBook) -> SlurmFigures | None:
    if not options.use_sacct:
        return None
    try:
        return slurm_figures(job_id, options, book, SystemClock().now_ms() // 1000, ask)
    except SourceUnavailableError as fault:
        sys.stderr.write(f"note: {visible(str(fault))}\n")
        return None


def _verdict(cost: Decimal, said: Decimal, figures: SlurmFigures, *, has_ended: bool) -> str:
    """Whether two costs are one: each row of the meter, of a minute at most, is rounded to a nano-dollar."""
    if not has_ended:
        return "still runs: each as of its own instant"
    roundings = 2 + figures.gpu_milli_ms // (1000 * MINUTE_MS)
    return "equal" if abs(cost - said) * NANO_PER_USD <= roundings else "differs"
