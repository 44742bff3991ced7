"""Computes the exact time spans of one job's booked lines, from the state last stored by its shard.

The ledger has minutes; the state has the millisecond at which each line began, changed and ended. This module
distributes the ledger's costs over these spans; it must not compute a cost of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.snapshot.job_blobs import JobBlob
from streams.engine.timeline.intervals import Interval

#: (attempt, node, phase, component, unit, sku, price effective ms)
Key = tuple[int, str, str, str, str, str, int]


class Row(NamedTuple):
    """A ledger row's whole quantity and costs, in nano-dollars."""

    quantity: int
    cost_nano: int
    lost_quantity: int
    lost_cost_nano: int


class Share(NamedTuple):
    """A span of one line, and its share of the ledger's costs."""

    key: Key
    start_ms: int
    end_ms: int
    quantity: int
    cost_nano: int
    lost_cost_nano: int


def shares(job: JobBlob, rows: Mapping[Key, Mapping[int, Row]]) -> list[Share] | None:
    """Each span of the job's timeline with its share of the rows, or None if state and rows disagree.

    A minute's cost is distributed by quantity: each span gets the rounded-down cost of the cumulative quantity up to
    it, minus what earlier spans got, so the shares of a row add up to the row.
    """
    found: list[Share] = []
    for attempt in job.attempts:
        for line, intervals in attempt.booked_lines:
            price = line.price
            key = (
                attempt.number,
                line.node,
                line.phase,
                price.component,
                price.unit,
                price.sku,
                price.effective_ms,
            )
            shared = _line_shares(key, intervals, rows.get(key, {}))
            if shared is None:
                return None
            found += shared
    return found


def _line_shares(key: Key, intervals: Sequence[Interval], rows: Mapping[int, Row]) -> list[Share] | None:
    given: dict[int, tuple[int, int]] = {}  # minute -> (quantity, lost quantity) of earlier spans
    found: list[Share] = []
    for start_ms, end_ms, rate, is_lost in intervals:
        cost_nano = lost_nano = 0
        for minute in range(start_ms // MINUTE_MS, -(-end_ms // MINUTE_MS)):
            row = rows.get(minute)
            if row is None:
                return None
            overlap_ms = min(end_ms, (minute + 1) * MINUTE_MS) - max(start_ms, minute * MINUTE_MS)
            taken, taken_lost = given.get(minute, (0, 0))
            now, now_lost = taken + rate * overlap_ms, taken_lost + rate * overlap_ms * is_lost
            if now > row.quantity or now_lost > row.lost_quantity:
                return None
            cost_nano += _up_to(row.cost_nano, now, row.quantity) - _up_to(row.cost_nano, taken, row.quantity)
            lost_nano += _up_to(row.lost_cost_nano, now_lost, row.lost_quantity) - _up_to(
                row.lost_cost_nano, taken_lost, row.lost_quantity
            )
            given[minute] = (now, now_lost)
        found.append(Share(key, start_ms, end_ms, rate * (end_ms - start_ms), cost_nano, lost_nano))
    whole = all(given.get(minute) == (row.quantity, row.lost_quantity) for minute, row in rows.items())
    return found if whole else None


def _up_to(cost_nano: int, part: int, whole: int) -> int:
    return cost_nano * part // whole if whole else 0


def rows_by_key(records: Iterable[Mapping[str, object]]) -> dict[Key, dict[int, Row]]:
    """Ledger rows by line and minute; a record may stand for `minutes` equal rows of consecutive minutes."""
    found: dict[Key, dict[int, Row]] = {}
    for record in records:
        row = Row(
            int(str(record["quantity"])),
            _nano(record["cost_usd"]),
            int(str(record["lost_quantity"])),
            _nano(record["lost_cost_usd"]),
        )
        first = _ms(record["minute"]) // MINUTE_MS
        minutes = range(first, first + int(str(record.get("minutes", 1))))
        found.setdefault(key_of(record), {}).update(dict.fromkeys(minutes, row))
    return found


def key_of(record: Mapping[str, object]) -> Key:
    """The line of a ledger row."""
    return (
        int(str(record["attempt"])),
        str(record["node"]),
        str(record["phase"]),
        str(record["component"]),
        str(record["unit"]),
        str(record["sku"]),
        _ms(record["price_effective"]),
    )


def instant(ms: int) -> datetime:
    """Convert milliseconds since 1970 to the type of ledger instants."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _nano(usd: object) -> int:
    return int(Decimal(str(usd)).scaleb(9))


def _ms(value: object) -> int:
    assert isinstance(value, datetime)  # the ledger's type
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
