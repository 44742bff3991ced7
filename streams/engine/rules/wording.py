"""Amounts and names as sentences about findings on the ledger have them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from streams.engine.rules.formatting import sentence, short


def named(before: str, name: str, after: str) -> str:
    """Return a sentence with a name in it."""
    return sentence(lambda at_most: f"{before}{short(name, at_most)}{after}".strip())


def nano_of(value: float | Decimal) -> int:
    """Return dollars as nano-dollars."""
    return round(float(value) * 1e9)


def hours_sql(where: str, row: Mapping[str, Any]) -> str:
    """Return SQL for the dearest jobs of the hour that ends at the row's instant."""
    hour = f"toDateTime({row['at_ms'] // 1000 - 3600:d}, 'UTC')"
    return (
        "SELECT h.job_id AS job_id, any(h.owner) AS owner, any(h.team) AS team, sum(h.cost_usd) AS cost_usd"
        f" FROM cost_hours AS h WHERE h.hour = {hour} AND {where} GROUP BY job_id ORDER BY cost_usd DESC LIMIT 20"
    )
