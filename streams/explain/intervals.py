"""Converts ledger rows of one job to intervals: runs of equal minutes, and the rule behind each.

A record is a row of the ledger, or `minutes` rows of consecutive minutes that are equal in all else. Pure functions; they
must not compute a cost, only add up the ledger's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from schemas.events import FLOW_FIELDS
from streams.engine.pricing.gpu_types import product
from streams.engine.snapshot.job_blobs import JobBlob
from streams.explain.spans import Key, Share, instant, key_of, rows_by_key, shares

MINUTE = timedelta(minutes=1)
_PAID_PHASES = frozenset({"starting", "running", "suspended"})
_KEY = ("attempt", "node", "component", "phase", "sku", "price_effective", "price_usd", "unit", *FLOW_FIELDS)


@dataclass(frozen=True, slots=True)
class Interval:
    """The cost of a span of time, and why."""

    begin: datetime
    end: datetime
    attempt: int
    node: str
    component: str
    phase: str
    quantity: int
    unit: str
    price_usd: Decimal
    per: str
    sku: str
    revision: datetime
    cost_usd: Decimal
    lost_cost_usd: Decimal
    rule: str


def merged(rows: Iterable[Mapping[str, object]], *, by_minute: bool = False) -> list[Interval]:
    """Intervals in order of time.

    Consecutive minutes are one interval while their key and quantity are equal: a change of GPUs, price, phase or node
    begins a new interval, and so does a minute that is billed only in part.
    """
    lines: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for row in rows:
        lines.setdefault(tuple(row.get(name, "") for name in _KEY), []).append(row)
    found: list[Interval] = []
    for line in lines.values():
        ordered = sorted(line, key=_minute)
        runs = ([row] for row in _single_minutes(ordered)) if by_minute else _runs(ordered)
        found.extend(_interval(run, whole_minutes=by_minute) for run in runs)
    return sorted(found, key=_order)


def exact(job: JobBlob, records: Sequence[Mapping[str, object]]) -> list[Interval] | None:
    """Intervals to the millisecond where the timeline is billed; None if state and ledger disagree.

    Costs of samples and traffic have a resolution of minutes, from the instant at which their price is effective.
    """
    by_key: dict[Key, list[Mapping[str, object]]] = {}
    for record in records:
        by_key.setdefault(key_of(record), []).append(record)
    spans = shares(job, {key: rows for key, rows in rows_by_key(records).items() if key[2] in _PAID_PHASES})
    if spans is None or {span.key for span in spans} != {key for key in by_key if key[2] in _PAID_PHASES}:
        return None
    found = [_span(span, by_key[span.key][0]) for span in spans]
    found += merged(record for key, rows in by_key.items() if key[2] not in _PAID_PHASES for record in rows)
    return sorted(found, key=_order)


def _span(span: Share, record: Mapping[str, object]) -> Interval:
    whole = _interval([record], whole_minutes=True)
    return replace(
        whole,
        begin=instant(span.start_ms),
        end=instant(span.end_ms),
        quantity=span.quantity,
        cost_usd=Decimal(span.cost_nano).scaleb(-9),
        lost_cost_usd=Decimal(span.lost_cost_nano).scaleb(-9),
    )


def _order(each: Interval) -> tuple[object, ...]:
    return (each.begin, each.attempt, each.component, each.node, each.phase, each.sku, each.rule)


def total_usd(intervals: Iterable[Interval]) -> Decimal:
    """The exact sum."""
    return sum((each.cost_usd for each in intervals), Decimal(0))


def _minute(row: Mapping[str, object]) -> datetime:
    minute = row["minute"]
    assert isinstance(minute, datetime)  # the ledger's type
    return minute


def _minutes(row: Mapping[str, object]) -> int:
    minutes = row.get("minutes", 1)
    assert isinstance(minutes, int)  # the query's type
    return minutes


def _end(row: Mapping[str, object]) -> datetime:
    return _minute(row) + _minutes(row) * MINUTE


def _single_minutes(rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    for row in rows:
        for minute in range(_minutes(row)):
            yield {**row, "minute": _minute(row) + minute * MINUTE, "minutes": 1}


def _runs(rows: Iterable[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    run: list[Mapping[str, object]] = []
    for row in rows:
        if run and (_minute(row) != _end(run[-1]) or row["quantity"] != run[-1]["quantity"]):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _interval(run: list[Mapping[str, object]], *, whole_minutes: bool) -> Interval:
    first = run[0]
    begin, end = _minute(first), _end(run[-1])
    if not whole_minutes and first["phase"] in _PAID_PHASES:
        # The ledger has minutes; the attempt's begin and end are known to the millisecond.
        begin = _within(begin, end, first.get("started"), begin)
        end = _within(begin, end, first.get("ended"), end)
    revision = first["price_effective"]
    assert isinstance(revision, datetime)  # the ledger's type
    if not whole_minutes:
        begin = _within(begin, end, revision, begin)  # a price applies from its effective instant
    return Interval(
        begin=begin,
        end=end,
        attempt=int(str(first["attempt"])),
        node=str(first["node"]),
        component=str(first["component"]),
        phase=str(first["phase"]),
        quantity=sum(_minutes(row) * int(str(row["quantity"])) for row in run),
        unit=str(first["unit"]),
        price_usd=Decimal(str(first["price_usd"])),
        per=_per(first),
        sku=str(first["sku"]),
        revision=revision,
        cost_usd=sum((_minutes(row) * Decimal(str(row["cost_usd"])) for row in run), Decimal(0)),
        lost_cost_usd=sum((_minutes(row) * Decimal(str(row["lost_cost_usd"])) for row in run), Decimal(0)),
        rule=_rule(first),
    )


def _within(begin: datetime, end: datetime, instant: object, otherwise: datetime) -> datetime:
    return instant if isinstance(instant, datetime) and begin < instant < end else otherwise


def _per(row: Mapping[str, object]) -> str:
    gpus = int(str(row.get("gpus") or 0))
    return (
        f"{row.get('per') or ''}/{gpus}"
        if row.get("per") == "instance_hour" and gpus
        else str(row.get("per") or "")
    )


def _rule(row: Mapping[str, object]) -> str:
    """Describe how the quantity is derived, and why this price applies."""
    return f"{_quantity_rule(str(row['unit']), str(row['phase']))}{_flow(row)}; {_price_rule(row)}"


def _quantity_rule(unit: str, phase: str) -> str:
    if phase == "metered":
        return "sampled seconds, no lifecycle event"
    if unit in ("bytes", "requests"):
        return "amount spread over its interval"
    if unit == "mib_ms":
        return "stored size x time"
    what = {"gpu_milli_ms": "GPUs", "instance_milli_ms": "instances", "cpu_milli_ms": "CPUs", "ms": "attempt"}
    return f"{what.get(unit, 'memory')} held while {phase}"


def _flow(row: Mapping[str, object]) -> str:
    named = [f"{name}={row[name]}" for name in FLOW_FIELDS if row.get(name)]
    return f" ({', '.join(named)})" if named else ""


def _price_rule(row: Mapping[str, object]) -> str:
    if not row["sku"]:
        return "unpriced: no price matches"
    match = row.get("match")
    if isinstance(match, Mapping) and match:
        named = (f"{key}={value}{_alias(key, str(value), row)}" for key, value in sorted(match.items()))
        return "price matches " + ", ".join(named)
    return "price for any"


def _alias(key: str, value: str, row: Mapping[str, object]) -> str:
    """Say by which name the usage reported the GPU type of a price, if by another one."""
    reported = str(row.get("gpu_type") or "")
    if key != "gpu_type" or reported == value or product(reported) != product(value):
        return ""
    return f" (another name of {reported})"
