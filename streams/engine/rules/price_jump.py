"""`price_jump`: a revision of a price is far from the one before it, or from those of the same GPUs, or dear to jobs that pay it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, times, usd
from streams.engine.rules.rule import PAGE, TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.shared_cause import PRICE, cause_text

_NAME: Final = "price_jump"
#: An alert of it is over so long after the minute in which the revision was both known and in force.
FIRING_MS: Final = HOUR_MS
#: A price is put back to what it was if it differs from that by no more than this factor.
BACK_WITHIN: Final = Fraction(6, 5)
#: What jobs paid of the SKU so long before that minute says what the revision adds.
USED_MS: Final = 5 * MINUTE_MS


class PriceJump(NamedTuple):
    """A revision of a SKU in the minute that ends at `at_ms`, and the price before it, in nano-dollars."""

    at_ms: int
    sku: str
    per: str
    usd_nano: int
    before_nano: int
    is_spot: bool = False
    #: The SKU of the nearest other price of the same GPUs, which `before_nano` is then; '': it is the revision before.
    other_sku: str = ""
    gpu_type: str = ""

    @property
    def ratio(self) -> Fraction:
        """The price / the one before it."""
        return Fraction(self.usd_nano, self.before_nano)


class PriceUse(NamedTuple):
    """What jobs pay of a SKU: how many they are, and what a revision adds to it in an hour; `dearest`: job ids."""

    jobs: int = 0
    more_nano_per_hour: int = 0
    dearest: Sequence[str] = ()


def is_far(jump: PriceJump, of: Mapping[str, float]) -> bool:
    """Whether the revision alone says that it may be wrong."""
    factor = Fraction(str(of["factor"]))
    return jump.ratio > factor or jump.ratio * factor < 1


def may_be_dear(jump: PriceJump, of: Mapping[str, float]) -> bool:
    """Whether it may be wrong if jobs pay it. Spot prices double as a matter of course."""
    return not jump.is_spot and jump.ratio >= Fraction(str(of["used_factor"]))


def holds(jump: PriceJump, use: PriceUse, of: Mapping[str, float]) -> bool:
    """Whether an alert opens about a revision."""
    is_dear = use.jobs >= of["jobs"] and use.more_nano_per_hour >= of["usd_per_hour"] * NANO_PER_USD
    return is_far(jump, of) or (may_be_dear(jump, of) and is_dear)


def finding(of: LedgerSettings, jump: PriceJump, use: PriceUse) -> LedgerFinding:
    """Return the sentence and the evidence of a jump."""
    ratio = float(jump.ratio)
    before, now = usd(jump.before_nano), f"{usd(jump.usd_nano)} a {jump.per}"
    went = f"went from {before} to {now}, {_said(ratio) if ratio else 'which makes it free'}"
    more_nano = max(use.more_nano_per_hour, 0)
    is_page = more_nano >= of.thresholds["page_usd_per_hour"] * NANO_PER_USD
    if jump.other_sku:
        nearest = f"that of {short(jump.other_sku)}, the nearest of {short(jump.gpu_type)}"
        went = f"is {now}, {_said(ratio)} {nearest}" if ratio else f"is {now}, and {nearest} is {before}"

    def text(at_most: int) -> str:
        if not more_nano:
            return f"price {short(jump.sku, at_most)} {went}"
        pay = f"{use.jobs} jobs pay" if use.jobs > 1 else "1 job pays"
        dearest = ", ".join(short(job_id, at_most // 2) for job_id in use.dearest)
        return f"price {short(jump.sku, at_most)} {went}: {pay} {rounded_usd(more_nano)}/h more ({dearest})"

    return LedgerFinding(
        _NAME, PAGE if is_page else of.severity, "sku", jump.sku, jump.at_ms,
        sentence(text, "is it right? A revision with the same `effective_ms` corrects it"),
        f"SELECT * FROM prices FINAL WHERE sku = {quoted(jump.sku)} ORDER BY effective",
        ratio, more_nano, 0, shared_cause=cause_text(PRICE, jump.sku) if use.jobs else "", margins=(*margins(of.thresholds, jump),),
    )  # fmt: skip


def _said(ratio: float) -> str:
    return times(ratio) if ratio >= 1 else f"{ratio:.2g} times"


def margins(of: Mapping[str, float], jump: PriceJump) -> list[Margin]:
    """Return how far a revision is from the one before it."""
    ratio = float(jump.ratio)
    return [
        from_threshold_on(
            f"a revision / the {'nearest of the same GPUs' if jump.other_sku else 'one before'}, or back (above)",
            max(ratio, 1 / ratio if ratio else 1e6),
            of["factor"],
        )
    ]


RULE: Final = LedgerRule(
    name=_NAME,
    title="Price jump",
    severity=TICKET,
    about="`sku`",
    holds=(
        "a revision is more than three times the one before, or less than a third of it. Or it is more than "
        "three times the highest, or less than a third of the lowest, of the other prices of the same GPU "
        "type (spot prices are compared with spot prices). Or it is no spot price, is 1.5 times the one "
        "before, and three jobs or more pay $50/h more by it. One "
        "that puts back what another one did within a day is none. Judged at the end of the minute in which it is "
        "known and in force, by the prices known then. It fires for an hour, and is a page where jobs pay "
        "$100/h more"
    ),
    runbook="ledger_rules.md#price_jump",
    thresholds={
        "factor": Threshold(
            3, 1.01, 1e6, "a revision / the one before or the nearest of the same GPU type, or back"
        ),
        "used_factor": Threshold(1.5, 1.01, 1e6, "a revision / the one before, where jobs pay it"),
        "jobs": Threshold(3, 1, 1e6, "jobs that pay it, of a revision that only `used_factor` finds", True),
        "usd_per_hour": Threshold(50, 0, 1e9, "dollars per hour that they pay more"),
        "page_usd_per_hour": Threshold(100, 0, 1e9, "dollars per hour more from which it is a page"),
    },
    each="sku",
    operator="prices",
    finding=finding,
    margins=margins,
)
