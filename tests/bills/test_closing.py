"""A closed month does not change: what comes later for it is an adjustment of the next one, and its manifest says whether a byte did."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.bill_tables import BILL_LINES, CLOSED_CHARGES, CLOSED_MONTHS, FX_RATES
from schemas.tables import ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, PRICES
from sinks.clickhouse import ClickHouseStore
from streams.costs.closing import (
    ClosedMonth,
    ClosingRules,
    as_closed_now,
    close,
    closed_rows,
    shut_out,
)
from streams.costs.closing_key import NO_SECRETS, ClosingKey, closing_key
from streams.costs.exact import exact_sum
from streams.costs.month_store import OpenMonthStore
from streams.costs.shares import Rule
from streams.costs.statement import TeamStatement, statement_of
from streams.costs.verifying import Verified, found_closed, verified
from streams.errors import WrongUseError
from tests.bills.bill import line, loaded, written
from tests.sinks.rows import rows

KEY = ClosingKey(b"a key of thirty-two characters, at least")
RULES = ClosingRules(idle=Rule.WEIGHTED)
#: January 2027: all months of these tests have ended.
NOW_MS = 1_798_800_000_000


@dataclass
class Books:
    """A store with jobs on nodes of the account A1, and bills of it."""

    store: ClickHouseStore
    folder: Path
    version: int = 1
    now_ms: int = NOW_MS
    files: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def used(
        self,
        job: str,
        month: str,
        usd: str,
        gpu_h: int = 1,
        *,
        team: str = "vision",
        day: int = 3,
        node: str = "n1",
        account: str = "A1",
    ) -> None:
        """What a job was metered on a node on a day; again: what it is now."""
        self.version += 1
        at = datetime.fromisoformat(f"{month}-{day:02}T10:00").replace(tzinfo=UTC)
        same = {"job_id": job, "version": self.version}
        metered = {"cost_usd": Decimal(usd), "quantity": gpu_h * 3_600_000_000, "sku": "h100"}
        self._put(JOBS, {**same, "team": team, "project": "llm", "owner": "ada"})
        self._put(ATTEMPTS, {**same, "account": account, "cloud": "aws"})
        self._put(
            JOB_HOURS,
            {**same, "hour": at, "gpu_cost_usd": Decimal(usd), "gpu_milli_ms": gpu_h * 3_600_000_000},
        )
        self._put(JOB_MINUTES, {**same, "minute": at, "node": node, **metered})

    def priced(self, day: str, usd: str) -> None:
        """A price that holds from a day on."""
        self.version += 1
        at = datetime.fromisoformat(day).replace(tzinfo=UTC)
        self._put(
            PRICES,
            {"sku": "h100", "usd": Decimal(usd), "per": "gpu_hour", "effective": at, "version": self.version},
        )

    def _put(self, table: str, row: dict[str, Any]) -> None:
        self.store.insert(table, rows(table, row), f"{table}-{self.version}")

    def billed(self, month: str, usd: str, *, day: int = 3, **values: str) -> str:
        """Load a bill of the node; return its file."""
        self.files[month] += 1
        until = f"{int(month[:4]) + (month[5:] == '12')}-{int(month[5:]) % 12 + 1:02}-01"
        cells = {
            "BillingPeriodStart": f"{month}-01",
            "BillingPeriodEnd": until,
            "ChargePeriodStart": f"{month}-{day:02}",
            "ChargePeriodEnd": f"{month}-{day + 1:02}",
            "BillingAccountId": "A1",
            "ProviderName": "AWS",
            "BilledCost": usd,
            "EffectiveCost": usd,
            "ListCost": usd,
        }
        path = written(self.folder / f"{month}-{self.files[month]}.csv", line(**{**cells, **values}))
        loaded(self.store, path, now_ms=self.now_ms)
        return path.name

    def close(self, month: str, *, is_forced: bool = False, rules: ClosingRules = RULES) -> ClosedMonth:
        self.now_ms += 1_000
        sign = lambda manifest: (KEY.signature(manifest), KEY.key_id)  # noqa: E731 - one line
        return close(OpenMonthStore(self.store), month, rules, self.now_ms, sign, is_forced=is_forced)[0]

    def statement(self, team: str, month: str) -> TeamStatement:
        return statement_of(OpenMonthStore(self.store), team, month, RULES)

    def verified(self, month: str) -> Verified:
        store = OpenMonthStore(self.store)
        closed = found_closed(store, month)
        return verified(store, month, is_signed=KEY.holds(closed.manifest, closed.signature))

    def charged(self, of_month: str) -> Decimal:
        """What all closings together charge for a month."""
        return exact_sum(row.charge_usd for row in closed_rows(OpenMonthStore(self.store), of_month=of_month))

    def live(self, month: str) -> Decimal:
        """What the month is charged by what the store has now."""
        from streams.costs.closing import _charged

        return exact_sum(
            row.charge_usd for row in _charged(OpenMonthStore(self.store), month, RULES)[1].values()
        )


@pytest.fixture
def books(store: ClickHouseStore, tmp_path: Path) -> Books:
    return Books(store, tmp_path)


def with_may(books: Books) -> ClosedMonth:
    books.used("a", "2026-05", "30")
    books.used("b", "2026-05", "10", team="speech")
    books.billed("2026-05", "36")
    return books.close("2026-05")


def test_what_comes_late_is_an_adjustment_of_the_next_month(books: Books) -> None:
    with_may(books)
    before = [books.statement(team, "2026-05").record() for team in ("vision", "speech")]
    assert [each["total_usd"] for each in before] == [27, 9]
    books.used("a", "2026-05", "60", gpu_h=2)  # a late event
    books.used("b", "2026-05", "20", team="speech")  # no more time
    books.priced("2026-05-01", "20")  # a late price
    late = books.billed("2026-05", "4", ChargeClass="Correction", ResourceId="n1")
    assert [books.statement(team, "2026-05").record() for team in ("vision", "speech")] == before
    assert books.verified("2026-05").faults == []
    metered, billed = books.verified("2026-05").notes
    assert "what was metered on 2026-05-03 has changed since" in metered
    assert "bills loaded since" in billed

    books.used("c", "2026-06", "5")
    books.billed("2026-06", "6")
    books.close("2026-06")
    vision = books.statement("vision", "2026-06")
    assert [(each.of_month, each.charge_usd) for each in vision.adjustments] == [("2026-05", Decimal(3))]
    assert vision.adjustments[0].reason == f"late event or price, late bill {late}"
    assert vision.total_usd == 9
    (speech,) = books.statement("speech", "2026-06").adjustments
    assert (speech.charge_usd, speech.reason) == (Decimal(1), f"late price, late bill {late}")
    assert books.charged("2026-05") == books.live("2026-05") == 40
    assert [books.statement(team, "2026-05").record() for team in ("vision", "speech")] == before

    books.used("c", "2026-07", "5")
    books.billed("2026-07", "6")
    books.close("2026-07")
    assert not books.statement("vision", "2026-07").adjustments
    assert [books.verified(month).faults for month in ("2026-05", "2026-06", "2026-07")] == [[], [], []]


def test_a_job_that_gets_another_team_takes_its_charge_along(books: Books) -> None:
    with_may(books)
    books.used("c", "2026-06", "5")
    books.used("a", "2026-06", "1", team="seeing")
    books.billed("2026-06", "6")
    books.close("2026-06")
    moved = closed_rows(OpenMonthStore(books.store), month="2026-06", of_month="2026-05")
    assert [(row.key[1], row.charge_usd, row.reason) for row in moved] == [
        ("seeing", Decimal(27), "late names"),
        ("vision", Decimal(-27), "late names"),
    ]
    assert books.statement("vision", "2026-05").total_usd == 27
    books.billed("2026-05", "4", BillingAccountId="A2", SubAccountId="A1", InvoiceIssuerName="Other")
    books.billed("2026-07", "6")
    books.close("2026-07", is_forced=True)
    assert "bills loaded since: 2026-05-2.csv" in books.verified("2026-05").notes[-1]
    later = closed_rows(OpenMonthStore(books.store), month="2026-07", of_month="2026-05")
    assert [(row.key[1], row.charge_usd, row.reason) for row in later] == [
        ("seeing", Decimal(3), "late bill 2026-05-2.csv"),
        ("speech", Decimal(1), "late bill 2026-05-2.csv"),
    ]


def test_a_price_of_a_later_month_is_no_cause(books: Books) -> None:
    with_may(books)
    books.used("a", "2026-05", "31")
    books.priced("2026-06-01", "20")
    books.close("2026-06", is_forced=True)
    (found, *_) = books.statement("vision", "2026-06").adjustments
    assert found.reason == "late event, lines shared anew by what was metered"


def test_a_late_rate_and_a_bill_withdrawn_are_named(books: Books) -> None:
    books.used("a", "2026-05", "30")
    rate = {
        "currency": "EUR",
        "day": datetime(2026, 5, 1, tzinfo=UTC),
        "units": Decimal(1),
        "dollars": Decimal("1.1"),
    }
    books.store.insert(FX_RATES, rows(FX_RATES, rate), "rate")
    books.billed("2026-05", "10", BillingCurrency="EUR")
    books.close("2026-05")
    newer = {**rate, "dollars": Decimal("1.2"), "version": 2, "time": datetime(2027, 2, 1, tzinfo=UTC)}
    books.store.insert(FX_RATES, rows(FX_RATES, newer), "newer")
    books.used("b", "2026-06", "1")
    books.close("2026-06", is_forced=True)
    (found,) = books.statement("vision", "2026-06").adjustments
    assert (found.reason, found.charge_usd) == ("late exchange rate", Decimal(1))


@pytest.mark.parametrize("seed", range(6))
def test_closings_sum_to_what_is_known_at_last(seed: int, books: Books) -> None:
    pick = random.Random(seed)
    months = ["2026-03", "2026-04", "2026-05", "2026-06"]
    for at, month in enumerate(months):
        for _ in range(6):
            of = pick.choice(months[: at + 1])
            if pick.random() < 0.6:
                team = pick.choice(("vision", "speech"))
                usd = Decimal(pick.randrange(10**11)).scaleb(-9)
                books.used(
                    f"{of}-{pick.randrange(3)}-{team}",
                    of,
                    str(usd),
                    pick.randrange(1, 9),
                    team=team,
                    day=pick.randrange(1, 5),
                )
            else:
                billed = f"{pick.randrange(-500, 5_000)}.{pick.randrange(10**12):012}"
                books.billed(of, billed, day=pick.randrange(1, 5), ChargeClass="Correction")
        books.close(month, is_forced=True)
        assert books.verified(month).faults == []
        for each in months[: at + 1]:
            assert books.charged(each) == books.live(each)
    assert all(books.verified(month).faults == [] for month in months)


# -- what is refused -------------------------------------------------------------------------------------------


def test_a_month_is_closed_once_in_order_and_when_it_is_over(books: Books) -> None:
    with_may(books)
    for month, said in (
        ("2026-05", "2026-05 is closed since 20"),
        ("2026-04", "2026-05 is closed already, and months are closed in order"),
        ("2026-07", "2026-05 was closed last: close 2026-06 before 2026-07"),
        ("2027-01", "2027-01 has not ended: close it from 2027-02-01 on"),
        ("2026-13", "expected a month such as 2026-10"),
    ):
        with pytest.raises(WrongUseError, match=said):
            books.close(month)
    assert books.charged("2026-05") == 36


def test_months_that_a_first_closing_shuts_out_are_named(books: Books) -> None:
    for month in ("2026-03", "2026-04", "2026-05"):
        books.used(f"j-{month}", month, "30")
    store = OpenMonthStore(books.store)
    assert shut_out(store, "2026-05") == ["2026-03", "2026-04"]
    assert shut_out(store, "2026-03") == []
    books.close("2026-04", is_forced=True)
    assert shut_out(store, "2026-05") == []


def test_what_is_not_reconciled_is_closed_only_by_will(books: Books) -> None:
    with pytest.raises(WrongUseError, match="nothing of it is metered or billed"):
        books.close("2026-05")
    books.used("a", "2026-05", "30")
    with pytest.raises(
        WrongUseError, match=r"30\.0+ USD are metered and on no bill yet \(no bill of it is loaded\)"
    ):
        books.close("2026-05")
    books.billed("2026-05", "9", BillingCurrency="EUR")
    with pytest.raises(WrongUseError, match="1 line of its bills has no exchange rate"):
        books.close("2026-05")
    closing = as_closed_now(OpenMonthStore(books.store), "2026-05", RULES)
    without_rate, on_no_bill = closing.unreconciled_reasons
    assert "1 line of its bills has no exchange rate" in without_rate
    assert "USD are metered and on no bill yet" in on_no_bill
    manifest = books.close("2026-05", is_forced=True).read()
    assert Decimal(manifest.unreconciled_usd) == 30
    assert books.statement("vision", "2026-05").total_usd == 30


def test_a_closing_that_broke_off_leaves_nothing(books: Books) -> None:
    books.used("a", "2026-05", "30")
    books.billed("2026-05", "36")
    left = {
        "month": datetime(2026, 5, 1, tzinfo=UTC),
        "of_month": datetime(2026, 5, 1, tzinfo=UTC),
        "job_id": "gone",
        "kind": "jobs",
        "team": "vision",
        "charge_usd": Decimal(99),
    }
    books.store.insert(CLOSED_CHARGES, rows(CLOSED_CHARGES, left), "broken")
    assert books.charged("2026-05") == 0  # without a manifest nothing of it counts
    books.close("2026-05")
    assert books.charged("2026-05") == 36
    assert books.verified("2026-05").faults == []


class Meeting(OpenMonthStore):
    """A store on which another command closes the month while this one does: before, or amid, its rows."""

    def __init__(self, books: Books, at: str) -> None:
        super().__init__(books.store)
        self.books, self.at, self.other = books, at, ""

    def meet(self, at: str) -> None:
        if at == self.at and not self.other:
            self.other = "begun"
            self.books.used("b", "2026-05", "10", team="speech")
            self.other = self.books.close("2026-05").signature

    def signed(self, manifest: str) -> tuple[str, str]:
        self.meet("before")
        return KEY.signature(manifest), KEY.key_id

    def insert(self, table: str, rows: Any, token: str) -> None:
        if table == CLOSED_CHARGES:
            self.meet("amid")
        super().insert(table, rows, token)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("before", "2026-05 is closed since"),
        ("amid", "2026-05 was closed at the same time by another command"),
    ],
)
def test_of_two_closings_at_once_one_counts(at: str, said: str, books: Books) -> None:
    books.used("a", "2026-05", "30")
    books.billed("2026-05", "36")
    store = Meeting(books, at)
    with pytest.raises(WrongUseError, match=said):
        close(store, "2026-05", RULES, books.now_ms - 5_000, store.signed)
    assert found_closed(store, "2026-05").signature == store.other
    assert books.verified("2026-05").faults == []
    assert books.charged("2026-05") == 36


# -- what is found ---------------------------------------------------------------------------------------------


def tampered_charge(books: Books, closed: ClosedMonth) -> None:
    (row,) = books.store.select(CLOSED_CHARGES).filter(books_job(books)).to_pylist()
    changed = {**row, "charge_usd": row["charge_usd"] + Decimal("1E-18"), "version": row["version"] + 1}
    books.store.insert(CLOSED_CHARGES, rows(CLOSED_CHARGES, changed), "tampered")


def books_job(books: Books) -> Any:
    import pyarrow.compute as pc

    return pc.equal(books.store.select(CLOSED_CHARGES)["job_id"], "a")


def tampered_line(books: Books, closed: ClosedMonth) -> None:
    (row,) = books.store.select(BILL_LINES).to_pylist()
    changed = {**row, "charge_description": "an hours", "version": row["version"] + 1}
    books.store.insert(BILL_LINES, rows(BILL_LINES, changed), "tampered")


def tampered_manifest(books: Books, closed: ClosedMonth) -> None:
    write_manifest(books, closed.manifest.replace('"rows":2', '"rows":3'), closed.signature)


def tampered_signature(books: Books, closed: ClosedMonth) -> None:
    write_manifest(
        books,
        closed.manifest,
        "0" + closed.signature[1:] if closed.signature[0] != "0" else "1" + closed.signature[1:],
    )


def write_manifest(books: Books, manifest: str, signature: str) -> None:
    (row,) = books.store.select(CLOSED_MONTHS).to_pylist()
    changed = {**row, "manifest": manifest, "signature": signature, "version": row["version"] + 1}
    books.store.insert(CLOSED_MONTHS, rows(CLOSED_MONTHS, changed), "tampered")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (tampered_charge, "the charges are not those that were closed"),
        (tampered_line, "the lines of the bill 2026-05-1.csv are not those that were closed"),
        (tampered_manifest, "the manifest is not what was signed"),
        (tampered_signature, "the manifest is not what was signed"),
    ],
)
def test_a_changed_byte_is_found(tamper: Any, said: str, books: Books) -> None:
    closed = with_may(books)
    assert books.verified("2026-05").faults == []
    tamper(books, closed)
    assert any(said in fault for fault in books.verified("2026-05").faults)


def test_every_byte_of_a_manifest_counts() -> None:
    manifest = '{"month":"2026-05"}'
    signature = KEY.signature(manifest)
    assert KEY.holds(manifest, signature)
    for at in range(len(manifest)):
        changed = manifest[:at] + chr(ord(manifest[at]) ^ 1) + manifest[at + 1 :]
        assert not KEY.holds(changed, signature)
    assert not ClosingKey(b"another key of thirty-two characters").holds(manifest, signature)
    assert not KEY.holds(manifest, "\udcff")


def test_a_replaced_manifest_is_found_by_the_next_one(books: Books) -> None:
    with_may(books)
    books.used("c", "2026-06", "5")
    books.close("2026-06", is_forced=True)
    may = next(each for each in books.store.select(CLOSED_MONTHS).to_pylist() if each["month"].month == 5)
    other = msgspec.json.encode({**msgspec.json.decode(may["manifest"]), "charge_usd": "1"}).decode()
    changed = {**may, "manifest": other, "signature": KEY.signature(other), "version": may["version"] + 1}
    books.store.insert(CLOSED_MONTHS, rows(CLOSED_MONTHS, changed), "replaced")
    assert books.verified("2026-06").faults == [
        "the manifest of the month before is not the one that stood when this one was closed"
    ]


def test_a_directory_has_one_key_that_only_its_user_reads(store: ClickHouseStore) -> None:
    assert closing_key(store.target, NO_SECRETS, may_make=False) is None
    made = closing_key(store.target, NO_SECRETS, may_make=True)
    again = closing_key(store.target, NO_SECRETS, may_make=False)
    assert made is not None
    assert again is not None
    assert made.key_id == again.key_id
    path = Path(store.target.data_dir) / "closing_key"  # type: ignore[union-attr]  # an embedded one
    assert path.stat().st_mode & 0o077 == 0
    path.unlink()
