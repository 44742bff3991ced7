"""Encodes explanations as JSON objects and decodes them: the API sends them, the commands read them.

Money is a decimal string, instants are milliseconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from streams.explain.intervals import Interval
from streams.explain.job import Explanation
from streams.explain.spans import instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IntervalObject(msgspec.Struct):
    """An interval in the API."""

    from_ms: int
    to_ms: int
    attempt: int
    node: str
    component: str
    phase: str
    quantity: int
    unit: str
    price_usd: str
    per: str
    sku: str
    revision_ms: int
    cost_usd: str
    lost_cost_usd: str
    rule: str


class ExplanationObject(msgspec.Struct):
    """An explanation in the API."""

    job_id: str
    total_usd: str
    booked_usd: str
    intervals: list[IntervalObject]
    fallback: str = ""


def encode(explanation: Explanation) -> bytes:
    """JSON."""
    intervals = [
        IntervalObject(
            from_ms=_ms(each.begin),
            to_ms=_ms(each.end),
            attempt=each.attempt,
            node=each.node,
            component=each.component,
            phase=each.phase,
            quantity=each.quantity,
            unit=each.unit,
            price_usd=f"{each.price_usd:f}",
            per=each.per,
            sku=each.sku,
            revision_ms=_ms(each.revision),
            cost_usd=f"{each.cost_usd:f}",
            lost_cost_usd=f"{each.lost_cost_usd:f}",
            rule=each.rule,
        )
        for each in explanation.intervals
    ]
    total, booked = f"{explanation.total_usd:f}", f"{explanation.booked_usd:f}"
    wire = ExplanationObject(explanation.job_id, total, booked, intervals, explanation.fallback)
    return msgspec.json.encode(wire)


def decode(data: bytes) -> Explanation:
    """Decode what `encode` returned.

    Raises:
        msgspec.DecodeError, ArithmeticError: The data are something else.
    """
    wire = msgspec.json.decode(data, type=ExplanationObject)
    intervals = [
        Interval(
            begin=instant(each.from_ms),
            end=instant(each.to_ms),
            attempt=each.attempt,
            node=each.node,
            component=each.component,
            phase=each.phase,
            quantity=each.quantity,
            unit=each.unit,
            price_usd=Decimal(each.price_usd),
            per=each.per,
            sku=each.sku,
            revision=instant(each.revision_ms),
            cost_usd=Decimal(each.cost_usd),
            lost_cost_usd=Decimal(each.lost_cost_usd),
            rule=each.rule,
        )
        for each in wire.intervals
    ]
    total, booked = Decimal(wire.total_usd), Decimal(wire.booked_usd)
    return Explanation(wire.job_id, intervals, total, booked, wire.fallback)


def _ms(at: datetime) -> int:
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
