"""Alerts and burn rates as they were stored against the plain judge's, to one step of 10 s and 0.1 %."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from tests.oracle.alert import Alert
from tests.oracle.judge import FACTS, STEP_MS, rates, take_figures
from tests.oracle.knowledge import Knowledge
from tests.oracle.model import LARGEST_COST_NANO

TOLERANCE = Fraction(1, 1000)
LEAST_NANO = 1000  # a millionth of a dollar: what is left of a rate when it is all but 0

Row = Mapping[str, Any]


class Stored(NamedTuple):
    """A row of `alerts`, times in ms and money in nano-dollars."""

    alert_id: str
    rule: str
    severity: str
    status: str
    subject: str
    started_ms: int
    resolved_ms: int | None
    held_ms: int
    window_ms: int
    firings: int
    silenced: bool
    ratio: float
    cost_nano: int
    nano_per_hour: int
    expected_nano_per_hour: int
    ticket_since_ms: int | None
    page_since_ms: int | None

    @classmethod
    def of(cls, row: Row) -> Stored:
        assert row["subject_kind"] == "job"
        return cls(
            row["alert_id"], row["rule"], row["severity"], row["status"], row["subject_name"],
            ms(row["started"]), None if row["resolved"] is None else ms(row["resolved"]), ms(row["held"]),
            row["window_ms"], row["firings"], row["silenced"], row["ratio"],
            nano(row["cost_usd"]), nano(row["usd_per_hour"]), nano(row["expected_usd_per_hour"]),
            *(None if row[name] is None else ms(row[name]) for name in ("ticket_since", "page_since")),
        )  # fmt: skip


def ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def nano(usd: Decimal) -> int:
    return int(usd.scaleb(9))


def near(got: float, want: Fraction, least: float = 0) -> bool:
    return abs(Fraction(got) - want) <= max(abs(want) * TOLERANCE, Fraction(least))


def alert_differences(got: Iterable[Stored], want: Iterable[Alert], knowledge: Knowledge) -> list[str]:
    """One sentence per episode that differs; empty when all agree."""
    mine: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    theirs: dict[tuple[str, str], list[Alert]] = defaultdict(list)
    for row in sorted(got, key=lambda row: row.started_ms):
        mine[row.rule, row.subject].append(row)
    for alert in want:
        theirs[alert.rule, alert.subject].append(alert)
    found: list[str] = []
    for key in sorted(mine.keys() | theirs.keys()):
        if len(mine[key]) != len(theirs[key]):
            found.append(f"{key}: got {_shown(mine[key])}, want {_shown(theirs[key])}")
            continue
        for row, alert in zip(mine[key], theirs[key], strict=True):
            found += [f"{key} from {alert.started_ms}: {words}" for words in _differ(row, alert, knowledge)]
    return found


def _shown(episodes: Iterable[Stored | Alert]) -> str:
    return "; ".join(f"[{x.started_ms}, {x.resolved_ms}] x {x.firings}" for x in episodes) or "nothing"


def _differ(row: Stored, alert: Alert, knowledge: Knowledge) -> list[str]:
    found = [
        f"{name}: got {getattr(row, name)}, want {getattr(alert, name)}"
        for name in ("severity", "status", "firings", "silenced", "window_ms")
        if getattr(row, name) != getattr(alert, name)
    ]
    # While a fact holds its row need not move at every tick.
    instants = ("started_ms", "resolved_ms", "ticket_since_ms", "page_since_ms")
    for name in (*instants, *(["held_ms"] if alert.rule not in FACTS else [])):
        got_ms, want_ms = getattr(row, name), getattr(alert, name)
        if got_ms != want_ms and (None in (got_ms, want_ms) or abs(got_ms - want_ms) > STEP_MS):
            found.append(f"{name}: got {got_ms}, want {want_ms}")
    if row.started_ms == alert.started_ms and row.alert_id != alert.alert_id:
        found.append(f"alert_id: got {row.alert_id}, want {alert.alert_id}")
    if alert.window_ms:  # figures are those of the tick at which the rule held last
        now = knowledge.burn(alert.subject, row.held_ms)
        if now is None:
            return [*found, f"held at {row.held_ms}, when nothing was known"]
        take_figures(alert, now, row.held_ms, alert.window_ms)
    if not near(row.ratio, alert.ratio):
        found.append(f"ratio: got {row.ratio}, want {float(alert.ratio)}")
    amounts = ("cost_nano", "nano_per_hour", "expected_nano_per_hour")
    found += [
        f"{name}: got {getattr(row, name)}, want {float(getattr(alert, name))}"
        for name in amounts
        if not near(getattr(row, name), min(getattr(alert, name), Fraction(LARGEST_COST_NANO)), LEAST_NANO)
    ]
    return found


def rate_differences(row: Row, knowledge: Knowledge) -> list[str]:
    """What a row of `burn_rates` says other than the ledger's oracle."""
    at_ms, job_id = ms(row["time"]), row["job_id"]
    want = rates(knowledge, job_id, at_ms)
    pairs = [
        *zip(
            ("usd_per_hour", "usd_per_hour_15m", "usd_per_hour_1h", "usd_per_hour_6h"),
            want.windows,
            strict=True,
        ),
        ("expected_usd_per_hour", want.expected),
        ("usd_per_hour_now", want.now),
    ]
    return [
        f"{job_id} at {at_ms}: {name}: got {row[name]}, want {float(wanted / 10**9):.9f}"
        for name, wanted in pairs
        if not near(nano(row[name]), min(wanted, Fraction(LARGEST_COST_NANO)), LEAST_NANO)
    ]
