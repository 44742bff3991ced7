"""The command `trainfare top`: the live view on a terminal, one snapshot for pipes and programs."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, usd, write
from streams.cli.rule_titles import title_of
from streams.cli.top.figures import Job, MeterView, is_unpriced
from streams.cli.top.lines import instant, percent
from streams.cli.top.rows import Order, count, ordered

_TITLES = (
    "job",
    "owner",
    "team",
    "state",
    "GPUs",
    "$/h now",
    "15m",
    "1h",
    "expected",
    "ratio",
    "cost",
    "alerts",
)
_FIELDS = (
    "job_id", "owner", "team", "state", "gpu_count", "usd_per_hour_now", "usd_per_hour_15m", "usd_per_hour_1h",
    "expected_usd_per_hour", "ratio", "cost_usd", "unpriced_gpu_h", "unpriced_compute_h",
)  # fmt: skip


def top(
    data: DataOption = None,
    url: UrlOption = None,
    once: Annotated[bool, typer.Option("--once", help="Write one table and exit, as in a pipe.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Watch the burn rate of each job, highest first."""
    from streams.cli.top.sources import source_for  # loads the store, and what speaks HTTP

    source = source_for(settings_for(data), url)
    on_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if once or form is not OutputFormat.table or not on_terminal:
        write_snapshot(source.fetch(), form)
    else:
        from streams.cli.top.terminal import TopApp

        TopApp(source).run()


def write_snapshot(snapshot: MeterView, form: OutputFormat) -> None:
    """Write a snapshot, jobs by descending burn rate."""
    jobs = ordered(snapshot.jobs, Order())
    if form is OutputFormat.json:
        parts = msgspec.to_builtins(msgspec.structs.replace(snapshot, jobs=tuple(jobs)))
        sys.stdout.write(to_json(parts) + "\n")
        return
    name, between = (visible, ",") if form is OutputFormat.csv else (title_of, ", ")
    rules = [between.join(sorted(name(a.rule) for a in job.alerts if a.status == "firing")) for job in jobs]
    rows = [[*(getattr(job, name) for name in _FIELDS), said] for job, said in zip(jobs, rules, strict=True)]
    if form is OutputFormat.csv:
        write(Grid((*_FIELDS, "alerts"), rows), form)
        return
    burn = snapshot.burn
    sys.stdout.write(
        f"{instant(snapshot.as_of_ms)}: {usd(burn.usd_per_hour_now)} $/h now, {usd(burn.usd_per_hour_1h)} over 1 h, "
        f"{usd(burn.spend_today_usd)} $ today, unproductive {percent(burn.idle_gpu_ratio)}, {burn.jobs_live} jobs on "
        f"{count(burn.gpus_held)} GPUs, {burn.alerts_firing} alerts firing; from {visible(snapshot.origin)}\n\n"
    )
    shown = [
        [
            *row[:4],
            count(row[4]),
            *map(usd, row[5:9]),
            "" if job.ratio is None else f"{job.ratio:.2f}",
            _cost(job),
            row[-1],
        ]
        for job, row in zip(jobs, rows, strict=True)
    ]
    write(Grid(_TITLES, shown), form)


def _cost(job: Job) -> str:
    """What a job has cost; what has no price is no zero."""
    if not is_unpriced(job):
        return usd(job.cost_usd)
    return usd(job.cost_usd).within(">= {}") if job.cost_usd else "unpriced"
