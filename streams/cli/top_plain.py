"""One snapshot of `trainfare top` for pipes and programs: a line on the fleet and the table, or all of it as JSON.

It must not round what a program reads.
"""

from __future__ import annotations

import sys

import msgspec

from schemas.escaping import visible
from streams.cli.output import Grid, OutputFormat, to_json, usd, write
from streams.cli.top_data import Job, MeterView
from streams.cli.top_lines import instant, percent
from streams.cli.top_rows import Order, count, ordered

_EXACT = (
    "job_id", "owner", "team", "state", "gpu_count", "usd_per_hour_now", "usd_per_hour_15m", "usd_per_hour_1h",
    "expected_usd_per_hour", "ratio", "cost_usd",
)  # fmt: skip
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


def write_snapshot(snapshot: MeterView, form: OutputFormat) -> None:
    """Write a snapshot, the dearest jobs first."""
    jobs = ordered(snapshot.jobs, Order())
    if form is OutputFormat.json:
        parts = msgspec.to_builtins(msgspec.structs.replace(snapshot, jobs=tuple(jobs)))
        sys.stdout.write(to_json(parts) + "\n")
    elif form is OutputFormat.csv:
        rows = [[*(getattr(job, name) for name in _EXACT), _rules(job)] for job in jobs]
        write(Grid((*_EXACT, "alerts"), rows), form)
    else:
        sys.stdout.write(_fleet(snapshot) + "\n\n")
        write(Grid(_TITLES, [_shown(job) for job in jobs]), form)


def _fleet(snapshot: MeterView) -> str:
    burn = snapshot.burn
    return (
        f"{instant(snapshot.as_of_ms)}: {usd(burn.usd_per_hour_now)} $/h now, {usd(burn.usd_per_hour_1h)} over 1 h, "
        f"{usd(burn.spend_today_usd)} $ today, idle {percent(burn.idle_gpu_ratio)}, {burn.jobs_live} jobs on "
        f"{count(burn.gpus_held)} GPUs, {burn.alerts_firing} alerts firing; from {visible(snapshot.origin)}"
    )


def _shown(job: Job) -> list[str]:
    money = (job.usd_per_hour_now, job.usd_per_hour_15m, job.usd_per_hour_1h, job.expected_usd_per_hour)
    names = [visible(text) for text in (job.job_id, job.owner, job.team, job.state)]
    ratio = "" if job.ratio is None else f"{job.ratio:.2f}"
    return [
        *names,
        count(job.gpu_count),
        *(usd(each) for each in money),
        ratio,
        usd(job.cost_usd),
        _rules(job),
    ]


def _rules(job: Job) -> str:
    return ",".join(sorted(visible(alert.rule) for alert in job.alerts if alert.status == "firing"))
