"""`price_jump`: a revision of a price is far above or below the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.formatting import NAMES_AT_MOST, short, usd
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on


class PriceJump(NamedTuple):
    """A revision of a SKU in the hour that ends at `at_ms`, and the price before it, in nano-dollars."""

    at_ms: int
    sku: str
    per: str
    usd_nano: int
    before_nano: int


def finding(severity: str, jump: PriceJump) -> LedgerFinding:
    """Return the sentence and the evidence of a jump."""
    sku, ratio = jump.sku, jump.usd_nano / jump.before_nano
    return LedgerFinding(
        "price_jump", severity, "sku", sku, jump.at_ms,
        f"price {short(sku, NAMES_AT_MOST)} went from {usd(jump.before_nano)} to {usd(jump.usd_nano)} a {jump.per}, {ratio:.2g} times;"
        " is it the right currency and unit? A revision with the same `effective_ms` corrects it",
        f"SELECT * FROM prices FINAL WHERE sku = {quoted(sku)} ORDER BY effective",
        ratio,
    )  # fmt: skip


def margins(of: Mapping[str, float], jump: PriceJump) -> list[Margin]:
    """Return how far a revision is from the one before it."""
    ratio = jump.usd_nano / jump.before_nano
    return [
        from_threshold_on(
            "a revision / the one before, or back (above)",
            max(ratio, 1 / ratio if ratio else 1e6),
            of["factor"],
        )
    ]


RULE: Final = LedgerRule(
    name="price_jump",
    title="Price jump",
    severity=TICKET,
    about="`sku`",
    holds="a revision is more than three times the one before, or less than a third, by the prices known at the end of the hour in"
    " which it is known and in force; for an hour",
    runbook="alerts.md#rules-across-jobs",
    thresholds={"factor": Threshold(3, 1.01, 1e6, "a revision / the one before, or back")},
    each="sku",
    finding=finding,
    margins=margins,
)
