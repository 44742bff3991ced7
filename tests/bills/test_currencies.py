"""Bills in other currencies: each line at the rate of its day or of its invoice, equal to exact fractions rounded once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills.exchange_rates import Rate, RateKey, RatesLoaded, load_rates, rates_of
from streams.bills.files import BillFile
from streams.bills.reading import AskedFormat
from streams.errors import WrongUseError
from streams.packed import open_packed
from tests.bills.bill import NOW_MS, line
from tests.bills.bill import written as focus_written
from tests.bills.exports import Bill, azure_mca, csv_text, gcp_json, gcp_records
from tests.bills.test_format_commitments import rows_of
from tests.bills.test_formats import loaded
from tests.sinks.rows import dicts

HIST = """Date,USD,JPY,SEK,
2026-10-05,1.0800,160.10,11.5000,
2026-10-02,1.1000,161.25,N/A,
2026-10-01,1.0700,159.00,11.4000,
"""
DAILY = "Date, USD, JPY, SEK, \n02 October 2026, 1.1000, 161.25, 11.45, \n"
PORTAL = """KEY,FREQ,CURRENCY,CURRENCY_DENOM,EXR_TYPE,EXR_SUFFIX,TIME_PERIOD,OBS_VALUE,TITLE
a,D,JPY,EUR,SP00,A,2026-10-02,161.25,yen
b,D,USD,EUR,SP00,A,2026-10-02,1.1000,dollar
"""
LISTED = "date,currency,usd\n2026-10-02,CHF,1.2345\n2026-10-02,USD,1\n"
USD_LINES = """
SELECT l.billing_currency AS currency, l.billed_cost AS billed, l.billed_usd AS usd, toString(l.rate_day) AS rate_day
FROM billed_lines AS l ORDER BY l.line
"""


def file_of(tmp_path: Path, text: str, name: str = "rates.csv") -> BillFile:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return BillFile(str(path), lambda: open_packed(path))


def stored(store: ClickHouseStore, tmp_path: Path, text: str, now_ms: int = NOW_MS) -> RatesLoaded:
    (found,) = load_rates(store, [file_of(tmp_path, text)], now_ms)
    return found


def day_s(day: int) -> int:
    return int(datetime(2026, 10, day, tzinfo=UTC).timestamp())


def oracle(amount: Decimal, rate: Fraction) -> Decimal:
    """To a nano-dollar, half to even, by exact fractions."""
    nano = round(Fraction(amount) * rate * 10**9)
    return Decimal(nano).scaleb(-9)


def test_every_form_of_the_bank_is_read(tmp_path: Path) -> None:
    hist = rates_of(file_of(tmp_path, HIST))
    assert len(hist) == 8, "three of the euro and of the yen, two of the krona"
    assert hist[RateKey("EUR", day_s(2))] == Rate(Decimal(1), Decimal("1.1"))
    assert hist[RateKey("JPY", day_s(2))] == Rate(Decimal("161.25"), Decimal("1.1"))
    daily = rates_of(file_of(tmp_path, DAILY))
    assert daily[RateKey("JPY", day_s(2))] == hist[RateKey("JPY", day_s(2))]
    portal = rates_of(file_of(tmp_path, PORTAL))
    assert portal == {key: daily[key] for key in portal}
    assert set(portal) == {RateKey("EUR", day_s(2)), RateKey("JPY", day_s(2))}
    assert rates_of(file_of(tmp_path, LISTED)) == {
        RateKey("CHF", day_s(2)): Rate(Decimal(1), Decimal("1.2345"))
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "line 1: is no file of exchange rates; expected the European Central Bank's CSV"),
        ("Date,USD\n", "has no rates"),
        ("Date,USD\n2026-10-02,0\n", "line 2: USD: '0', expected more than 0"),
        ("Date,USD\n2026-10-02,-1\n", "line 2: USD: '-1', expected more than 0"),
        ("Date,USD\n2026-10-02,NaN\n", "line 2: USD: 'NaN' is no number"),
        ("Date,USD\n2026-10-02,1e400\n", "line 2: USD: '1e400' is no number"),
        ("Date,USD\n2026-10-02,=1+1\n", "line 2: USD: '=1+1' is no number"),
        ("Date,USD,JPY\n2026-10-02,N/A,160\n", "line 2: has no rate of the dollar"),
        ("Date,USD,Yen\n2026-10-02,1.1,160\n", "'Yen' is no code of a currency"),
        ("Date,USD\nyesterday,1.1\n", "line 2: 'yesterday' is no day such as 2026-10-01"),
        ("Date,USD\n2 Brumaire 2026,1.1\n", "line 2: '2 Brumaire 2026' is no day"),
        ("Date,USD\n2026-10-02,1.1\n2026-10-02,1.2\n", "line 3: another rate of EUR on that day stands before it"),
        ("Date,USD\n2026-10-02,1.1,9\n", "line 2: has 3 cells, the header 2"),
        ("date,currency,usd\n2026-10-02,eur,1\n", "line 2: 'eur' is no code of a currency"),
        ("PK\x03\x04", "is a ZIP archive"),
        (PORTAL.replace("EUR", "GBP"), "line 2: CURRENCY_DENOM: 'GBP', expected EUR"),
        ("\n".join(PORTAL.splitlines()[:2]) + "\n", "line 2: the file has no rate of the dollar on that day"),
    ],
)  # fmt: skip
def test_what_is_no_rate_is_refused_by_line(
    text: str, said: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    with pytest.raises(WrongUseError) as caught:
        stored(store, tmp_path, text)
    assert said in str(caught.value)
    assert dicts(store, "SELECT count() AS rates FROM fx_rates") == [{"rates": 0}]


def test_a_newer_file_restates_and_says_what(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, focus_written(tmp_path / "f.csv", _in_euros("100", 2)))
    first = stored(store, tmp_path, HIST)
    assert (first.new, first.restated, first.changes) == (8, 0, [])
    assert [row["usd"] for row in dicts(store, USD_LINES)] == [110]
    again = stored(store, tmp_path, HIST)
    assert (again.new, again.restated) == (0, 0)
    # An earlier clock than that of what stands: the later file counts all the same.
    revised = stored(store, tmp_path, HIST.replace("2026-10-02,1.1000", "2026-10-02,1.2000"), NOW_MS - 10)
    assert (revised.new, revised.restated) == (0, 2)
    assert revised.changes == [
        "EUR 2026-10-02: 1 for 1.1 USD becomes 1 for 1.2 USD",
        "JPY 2026-10-02: 161.25 for 1.1 USD becomes 161.25 for 1.2 USD",
    ]
    assert [row["usd"] for row in dicts(store, USD_LINES)] == [120]
    (day,) = dicts(store, "SELECT billed_usd AS billed FROM billed_days")
    assert day["billed"] == 120


def _in_euros(cost: str, day: int, **values: str) -> dict[str, str]:
    start = date(2026, 10, day)
    return line(
        **{
            "BilledCost": cost,
            "EffectiveCost": cost,
            "ListCost": cost,
            "BillingCurrency": "EUR",
            "BillingPeriodStart": "2026-10-01",
            "BillingPeriodEnd": "2026-11-01",
            "ChargePeriodStart": f"{start}T10:00:00Z",
            "ChargePeriodEnd": f"{start}T11:00:00Z",
            **values,
        }
    )


def test_a_rate_holds_for_a_week_and_not_before_its_day(store: ClickHouseStore, tmp_path: Path) -> None:
    stored(store, tmp_path, HIST)
    before = {"ChargePeriodStart": "2026-09-30T23:59:59Z", "ChargePeriodEnd": "2026-10-01T00:00:01Z"}
    lines = [_in_euros("1", 1, **before), *(_in_euros("1", day) for day in (1, 3, 4, 5, 12, 13))]
    loaded(store, focus_written(tmp_path / "f.csv", *lines))
    assert [(row["usd"], row["rate_day"]) for row in dicts(store, USD_LINES)] == [
        (None, None),
        (Decimal("1.07"), "2026-10-01"),
        (Decimal("1.1"), "2026-10-02"),
        (Decimal("1.1"), "2026-10-02"),
        (Decimal("1.08"), "2026-10-05"),
        (Decimal("1.08"), "2026-10-05"),
        (None, None),
    ]


def test_the_rate_of_the_invoice_goes_before_that_of_the_day(store: ClickHouseStore, tmp_path: Path) -> None:
    stored(store, tmp_path, HIST)
    path = focus_written(tmp_path / "f.csv", _in_euros("92", 2), _in_euros("5", 2, BillingCurrency="USD"))
    loaded(store, path, asked=AskedFormat(units_per_usd="0.92"))
    assert [(row["usd"], row["rate_day"]) for row in dicts(store, USD_LINES)] == [(100, None), (5, None)]
    # The same file without it is another reading of the bill.
    loaded(store, path, replace=True)
    assert [row["usd"] for row in dicts(store, USD_LINES)] == [Decimal("101.2"), 5]


@pytest.mark.parametrize("given", ["0", "-1", "NaN", "1e400", "x"])
def test_a_rate_of_the_invoice_that_is_none_is_refused(
    given: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    path = focus_written(tmp_path / "f.csv", _in_euros("92", 2))
    with pytest.raises(WrongUseError, match="--units-per-usd"):
        loaded(store, path, asked=AskedFormat(units_per_usd=given))


def test_google_and_azure_say_the_rate_of_their_invoice(store: ClickHouseStore, tmp_path: Path) -> None:
    bill = Bill("node-1", "92", currency="EUR")
    google = tmp_path / "f.jsonl"
    text = gcp_json([bill]).replace('"currency_conversion_rate": 1.0', '"currency_conversion_rate": 0.92')
    google.write_text(text, encoding="utf-8")
    (row,) = rows_of(azure_mca([bill]))
    azure = tmp_path / "f.csv"
    azure.write_text(csv_text([row | {"exchangeRatePricingToBilling": "0.92"}]), encoding="utf-8")
    assert gcp_records([bill])[0]["currency"] == "EUR"
    loaded(store, google, azure)
    assert [row["usd"] for row in dicts(store, USD_LINES)] == [100, 100]


def test_random_bills_are_converted_as_exact_fractions_are(store: ClickHouseStore, tmp_path: Path) -> None:
    """Ties, negative amounts, the largest and the smallest; parts of days sum to the line."""
    random_ = random.Random(17)
    rates: dict[str, dict[int, tuple[Decimal, Decimal]]] = {"EUR": {}, "JPY": {}, "SEK": {}}
    text = ["Date,USD,JPY,SEK"]
    for day in range(1, 29):
        dollars, yen, krona = (
            Decimal(random_.randrange(1, 10**6)).scaleb(-random_.randrange(2, 7)) for _ in range(3)
        )
        text.append(f"2026-10-{day:02},{dollars:f},{yen:f},{krona:f}")
        for name, units in (("EUR", Decimal(1)), ("JPY", yen), ("SEK", krona)):
            rates[name][day] = units, dollars
    stored(store, tmp_path, "\n".join(text) + "\n")
    amounts = [
        "999999999999999",
        "-999999999999999.999999999999999999",
        "0.000000000000000001",
        "0.0000000005",
    ]
    amounts += [
        f"{Decimal(random_.randrange(-(10**15), 10**15)).scaleb(-random_.randrange(0, 15)):f}"
        for _ in range(300)
    ]
    expected: list[Decimal] = []
    lines: list[Mapping[str, str]] = []
    for amount in amounts:
        currency, day = random_.choice(["EUR", "JPY", "SEK", "USD"]), random_.randrange(1, 29)
        hours = random_.randrange(1, 200)
        start = datetime(2026, 10, day, random_.randrange(24), tzinfo=UTC)
        lines.append(
            _in_euros(
                amount,
                day,
                BillingCurrency=currency,
                ChargePeriodStart=start.isoformat(),
                ChargePeriodEnd=(start + timedelta(hours=hours)).isoformat(),
            )
        )
        if currency == "USD":
            expected.append(Decimal(amount))
        else:
            units, dollars = rates[currency][day]
            expected.append(oracle(Decimal(amount), Fraction(dollars) / Fraction(units)))
    usable = [at for at, amount in enumerate(expected) if abs(amount) < 10**15]
    assert len(usable) > 250
    loaded(store, focus_written(tmp_path / "f.csv", *(lines[at] for at in usable)))
    found = dicts(store, USD_LINES)
    assert [row["usd"] for row in found] == [expected[at] for at in usable]
    (days,) = dicts(store, "SELECT sum(billed_usd) AS billed FROM billed_days")
    assert Fraction(days["billed"]) == sum(Fraction(expected[at]) for at in usable)
