"""Builds the query that shows the evidence of an alert, ready for `trainfare sql`.

It must contain only literals quoted here: names come from untrusted events.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.durations import MINUTE_MS
from schemas.units import NANO_PER_USD

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_IDLE_MS: Final = 62 * MINUTE_MS  # the wait of `idle_gpus`, how far it lags behind, and what was before
_ROWS_ABOUT: Final = 15  # a screenful, whatever the window


def quoted(text: str) -> str:
    """Return a ClickHouse string literal on one line."""
    if text.isprintable() and "'" not in text and "\\" not in text:
        return f"'{text}'"
    return "'" + "".join(_escaped(ch) for ch in text) + "'"


def _escaped(ch: str) -> str:
    if ch in "'\\":
        return "\\" + ch
    if ch.isprintable():
        return ch
    return "".join(f"\\x{byte:02X}" for byte in ch.encode("utf-8", "surrogatepass"))


def decimal(nano: int) -> str:
    """Return nano-dollars as an exact literal."""
    return f"toDecimal64('{nano // NANO_PER_USD}.{nano % NANO_PER_USD:09d}', 9)"


def minute(ms: int) -> str:
    """Return the minute of an instant as a literal."""
    at = _EPOCH + timedelta(minutes=ms // MINUTE_MS)
    return f"toDateTime('{at.isoformat(' ')[:19]}', 'UTC')"


def gpu_use_evidence(job_id: str, by: str, name: str, since_ms: int, until_ms: int) -> str:
    """Return SQL for how busy and active a job's GPUs were in [since_ms, until_ms), by an expression of the minute."""
    since, until = (f"toDateTime({each // 1000:d}, 'UTC')" for each in (since_ms, until_ms))
    return (
        f"SELECT {by} AS {name}, uniqExact(u.node) AS nodes,"
        " round(sum(u.productive_gpu_ms) / 1000 / greatest(sum(u.sampled_gpu_s), 1), 4) AS util_ratio,"
        " round(sum(u.sm_gpu_ms) / 1000 / greatest(sum(u.sm_sampled_gpu_s), 1), 4) AS sm_ratio,"
        " round(sum(u.tensor_gpu_ms) / 1000 / greatest(sum(u.tensor_sampled_gpu_s), 1), 4) AS tensor_ratio,"
        " max(u.power_w_max) AS power_w_max"
        f" FROM job_usage_minutes AS u FINAL WHERE u.job_id = {quoted(job_id)} AND u.minute >= {since} AND u.minute < {until}"
        f" GROUP BY {name} ORDER BY {name}"
    )


def burn_evidence(job_id: str, held_ms: int, window_ms: int, expected_nano_per_hour: int) -> str:
    """Return SQL for the job's cost over the window: actual and expected dollars per hour, GPUs, and the prices applied."""
    step_minutes = max(1, window_ms // MINUTE_MS // _ROWS_ABOUT)
    return (
        f"SELECT toStartOfInterval(l.minute, INTERVAL {step_minutes} MINUTE) AS from_minute,"
        " round(toFloat64(sum(l.cost_usd)) * 60 / uniqExact(l.minute), 4) AS usd_per_hour,"
        f" {decimal(expected_nano_per_hour)} AS expected_usd_per_hour,"
        " sum(l.cost_usd) AS cost_usd,"
        " sumIf(l.cost_usd, l.component = 'gpu') AS gpu_cost_usd,"
        " sumIf(l.cost_usd, l.component IN ('network', 'storage')) AS traffic_cost_usd,"
        " round(sumIf(l.quantity, l.component = 'gpu') / 60000000 / uniqExact(l.minute), 3) AS gpus,"
        " arraySort(groupUniqArray(l.sku)) AS skus"
        f" FROM ledger AS l WHERE l.job_id = {quoted(job_id)}"
        f" AND l.minute >= {minute(held_ms - window_ms)} AND l.minute < {minute(held_ms)}"  # a part of a minute would read like a fall
        " GROUP BY from_minute ORDER BY from_minute"
    )


def attempts_evidence(job_id: str) -> str:
    """Return SQL for the job's attempts, their cost, and the times of the last sample and event."""
    name = quoted(job_id)
    return (
        "SELECT a.attempt AS attempt, a.state AS state, a.started AS started, a.ended AS ended,"
        f" (SELECT max(j.last_event) FROM jobs AS j FINAL WHERE j.job_id = {name}) AS last_event,"
        f" (SELECT maxOrNull(u.minute) FROM job_usage_minutes AS u FINAL WHERE u.job_id = {name}) AS last_sampled,"
        f" (SELECT sum(l.cost_usd) FROM ledger AS l WHERE l.job_id = {name}) AS job_cost_usd"
        f" FROM attempts AS a FINAL WHERE a.job_id = {name} ORDER BY attempt"
    )


def idle_evidence(job_id: str, held_ms: int) -> str:
    """Return SQL for the usage of the job's GPUs in the hour before, minute by minute."""
    return (
        "SELECT u.minute AS minute, uniqExact(u.node) AS nodes, sum(u.sampled_gpu_s) AS sampled_gpu_s,"
        " max(u.memory_used_mib_max) AS memory_used_mib_max,"
        " round(sum(u.productive_gpu_ms) / 1000 / greatest(sum(u.sampled_gpu_s), 1), 4) AS productive_ratio"
        f" FROM job_usage_minutes AS u FINAL WHERE u.job_id = {quoted(job_id)}"
        f" AND u.minute >= {minute(held_ms - _IDLE_MS)} AND u.minute <= {minute(held_ms)}"
        " GROUP BY minute ORDER BY minute"
    )


def unpriced_evidence(job_id: str) -> str:
    """Return SQL for the GPU-time and traffic without a price, and the fields that a price could match."""
    return (
        "SELECT l.attempt AS attempt, l.component AS component, l.unit AS unit, l.cloud AS cloud, l.region AS region,"
        " l.cluster AS cluster, l.instance_type AS instance_type, l.gpu_type AS gpu_type, l.purchase AS purchase,"
        " l.path AS path, l.op AS op, min(l.minute) AS first_minute, max(l.minute) AS last_minute,"
        " round(sumIf(l.quantity, l.component = 'gpu') / 3600000000, 4) AS unpriced_gpu_h,"
        " sumIf(l.quantity, l.component != 'gpu') AS unpriced_traffic"
        f" FROM ledger AS l WHERE l.job_id = {quoted(job_id)} AND l.component IN ('gpu', 'network', 'storage') AND l.sku = ''"
        " GROUP BY attempt, component, unit, cloud, region, cluster, instance_type, gpu_type, purchase, path, op"
        " ORDER BY attempt, component, unit"
    )


def held_evidence(job_id: str, phases: Iterable[str]) -> str:
    """SQL for the GPUs that the job holds in phases in which it does not run, node by node: since when, GPU-hours, and what they cost."""
    of_phases = ", ".join(quoted(each) for each in phases)
    return (
        "SELECT l.attempt AS attempt, l.phase AS phase, l.node AS node, l.gpu_type AS gpu_type, min(l.minute) AS first_minute,"
        " max(l.minute) AS last_minute, round(sum(l.quantity) / 3600000000, 4) AS gpu_h, sum(l.cost_usd) AS cost_usd"
        f" FROM ledger AS l WHERE l.job_id = {quoted(job_id)} AND l.component = 'gpu' AND l.phase IN ({of_phases})"
        " GROUP BY attempt, phase, node, gpu_type ORDER BY attempt, first_minute, phase, node, gpu_type"
    )
