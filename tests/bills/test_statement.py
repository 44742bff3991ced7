"""What a team gets of a month: sums, and names that attack the reader of a PDF or a table."""

from __future__ import annotations

import base64
import csv
import io
import re
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.bill_tables import FX_RATES
from sinks.clickhouse import ClickHouseStore
from streams.cli.statement import StatementFormat, _text
from streams.cli.statement_pdf import drawn, must_have_reportlab, written_pdf
from streams.costs.closing import ClosedRow, ClosingRules, closed_rows
from streams.costs.month_store import OpenMonthStore
from streams.costs.statement import DOLLARS, TeamStatement, in_cents
from streams.errors import WrongUseError
from tests.bills.test_closing import Books, with_may
from tests.cli.command import trainfare
from tests.sinks.rows import rows

HOSTILE = (
    '=HYPERLINK("http://x.example","pay")',
    "+cmd|' /C calc'!A0",
    "@SUM(1)",
    "a\u202egnp.exe",
    "line\nbreak\ttab\x1b[31m",
    "<b>bold</b> & <font color=red>red</font>",
    "<para><img src='/etc/passwd'/></para>",
    ") Tj ET (forged",
    "\u4f60\u597d \u05e9\u05dc\u05d5\u05dd",
    "x" * 5_000,
    "\ud800",
)


@pytest.fixture
def books(store: ClickHouseStore, tmp_path: Path) -> Books:
    return Books(store, tmp_path)


def row(
    job: str, usd: str, *, of_month: str = "2026-05", project: str = "llm", reason: str = ""
) -> ClosedRow:
    amounts = [Decimal(0)] * 10
    amounts[3] = amounts[9] = Decimal(usd)
    return ClosedRow(
        of_month,
        ("jobs", "vision", project, "ada", "", job, "", "", ""),
        3_600_000_000,
        tuple(amounts),
        reason,
    )


def statement(*found: ClosedRow, team: str = "vision", closed: str = "2026-06-05T10:00:00Z") -> TeamStatement:
    return TeamStatement(team, "2026-05", closed, "0" * 16, "1" * 64, ClosingRules(), [], [*found], [])


def words_of(pdf: bytes) -> str:
    """What the pages of a PDF draw."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    pages = b"".join(zlib.decompress(base64.a85decode(each.strip().removesuffix(b"~>"))) for each in streams)
    texts = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", pages)
    plain = b" ".join(
        re.sub(rb"\\(.)", rb"\1", re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), each))
        for each in texts
    )
    return plain.decode("cp1252", "replace")


def test_the_parts_of_a_statement_are_those_that_were_closed(books: Books) -> None:
    with_may(books)
    found = books.statement("vision", "2026-05")
    record = found.record()
    assert record["state"] == "closed"
    assert record["total_usd"] == record["month_usd"] == record["parts"]["billed_usd"] == 27
    assert [(each["name"], each["charge_usd"]) for each in record["projects"]] == [("llm", 27)]
    cells = list(csv.DictReader(io.StringIO(_text(found, StatementFormat.csv, DOLLARS))))
    assert [(each["job_id"], Decimal(each["charge_usd"])) for each in cells] == [("a", Decimal(27))]
    assert "closed 20" in _text(found, StatementFormat.table, DOLLARS)
    with pytest.raises(WrongUseError, match="no job of it cost anything in 2026-05"):
        books.statement("nobody", "2026-05")


def test_an_open_month_says_so(books: Books) -> None:
    books.used("a", "2026-05", "30")
    found = books.statement("vision", "2026-05")
    assert found.record()["state"] == "open"
    assert "open: it may change" in _text(found, StatementFormat.table, DOLLARS)
    words = words_of(written_pdf(found))
    assert "these charges may change. 30.00 USD are on no bill yet" in words
    assert "not closed: figures may change" in words


def test_a_pdf_names_a_part_by_one_figure() -> None:
    """1.004 + 2.004 + 3.006 are 6.014: in cents 1.00 + 2.01 + 3.00 = 6.01."""
    billed, metered = Decimal("1.004"), Decimal("2.004")
    amounts = (*[Decimal(0)] * 3, billed, Decimal(0), metered, *[Decimal(0)] * 3, billed + metered)
    own = row("a", "0")._replace(amounts=amounts)
    late = row("b", "3.006", of_month="2026-04", reason="late event")
    words = " ".join(words_of(written_pdf(statement(own, late, closed=""))).split())
    assert "2.01 USD are on no bill yet" in words
    assert "Metered, on no bill 2.01" in words
    assert "Adjustments of earlier months 3.00" in words
    assert words.count("3.00") == 3  # also above, and where adjustments are listed


def test_lines_without_a_rate_are_named_as_the_month_was_closed(books: Books) -> None:
    books.used("a", "2026-05", "30")
    books.billed("2026-05", "9440.5", BillingCurrency="NOK")
    said = "1 line of the bill is not in USD, has no rate of its day, and is charged to nobody: 9440.5"
    opened = books.statement("vision", "2026-05")
    books.close("2026-05", is_forced=True)
    rate = {"currency": "NOK", "day": datetime(2026, 5, 1, tzinfo=UTC), "units": Decimal(10), "dollars": Decimal(1)}  # fmt: skip
    books.store.insert(FX_RATES, rows(FX_RATES, rate), "rate")
    for found in (opened, books.statement("vision", "2026-05")):
        without_rate = found.record()["without_rate"]
        assert without_rate == [{"currency": "NOK", "lines": 1, "amount": Decimal("9440.5")}]
        assert said in " ".join(words_of(written_pdf(found)).split())
    assert books.verified("2026-05").faults == []


def test_statements_of_all_teams_are_what_was_closed(books: Books) -> None:
    with_may(books)
    store = OpenMonthStore(books.store)
    every = closed_rows(store, month="2026-05")
    teams = sorted({each.key[1] for each in every if each.key[0] == "jobs"})
    parts = [each for team in teams for each in books.statement(team, "2026-05").rows]
    others = [each for each in every if each.key[0] != "jobs"]
    assert sorted([*parts, *others]) == sorted(every)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    found = statement(
        row(name, "3"),
        row("b", "2", project=name),
        row("c", "1", of_month="2026-04", reason=f"late bill {name}"),
        team=name,
    )
    pdf = written_pdf(found)
    assert not re.search(rb"/(URI|JavaScript|JS|Launch|OpenAction|EmbeddedFile|GoToR)\b", pdf)
    assert pdf == written_pdf(found)
    words = words_of(pdf)
    assert drawn(name, 10)[:7] in words
    assert "\u202e" not in words
    assert "\x1b" not in words
    for each in csv.reader(io.StringIO(_text(found, StatementFormat.csv, DOLLARS))):
        for cell in each:
            assert cell[:1] not in ("=", "+", "@")
            assert not set(cell) & set("\u202e\x1b\t\n")
    assert not set(_text(found, StatementFormat.table, DOLLARS)) & set("\u202e\x1b\t")


def test_a_month_of_five_thousand_jobs_is_two_pages_at_most() -> None:
    jobs = [row(f"job-{number}", f"{number}.005", project=f"p{number % 40}") for number in range(5_000)]
    late = [
        row(f"job-{number}", "1", of_month="2026-04", reason=f"late bill {number}.csv")
        for number in range(50)
    ]
    found = statement(*jobs, *late)
    pdf = written_pdf(found)
    assert len(re.findall(rb"/Type /Page\b", pdf)) <= 2
    words = words_of(pdf)
    assert "4,985 more jobs" in words
    assert "28 more projects" in words
    assert "40 more" in words
    assert f"{found.total_usd.quantize(Decimal('0.01')):,}" in words


def test_cents_sum_to_the_rounded_sum() -> None:
    amounts = [
        Decimal("0.004"),
        Decimal("0.004"),
        Decimal("-1.005"),
        Decimal("123456789012345.123456789012345678"),
    ]
    found = in_cents(amounts)
    assert sum(found) == Decimal("123456789012344.13")
    assert all(abs(a - b) <= Decimal("0.01") for a, b in zip(found, amounts, strict=True))


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "there.pdf").write_text("")
    for words, said in (
        (("--format", "pdf"), "--format pdf needs --out FILE"),
        (("--format", "pdf", "--out", tmp_path / "there.pdf"), "exists; name a new file"),
        (("--idle", "even"), "--idle even: a month is closed by job"),
    ):
        done = trainfare("statement", "--team", "t", "--month", "2026-05", "--data", tmp_path, *words)
        assert done.code == 2
        assert said in done.one_line()
    done = trainfare("close", "2026-05", "--verify", "--dry-run", "--data", tmp_path)
    assert "--verify and --dry-run: give one of them" in done.one_line()


def test_without_its_library_a_pdf_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    must_have_reportlab()
    monkeypatch.setattr("streams.cli.statement_pdf.find_spec", lambda name: None)
    with pytest.raises(WrongUseError, match=r"pip install 'trainfare\[pdf\]'"):
        must_have_reportlab()


def test_a_job_whose_team_attacks_is_closed_and_verified(books: Books) -> None:
    for number, name in enumerate(HOSTILE[:-1]):  # no store holds a lone surrogate
        books.used(f"{name}-{number}", "2026-05", "1", team=name)
    closed = books.close("2026-05", is_forced=True)
    assert Decimal(closed.read().charge_usd) == len(HOSTILE) - 1
    assert books.verified("2026-05").faults == []
    for name in HOSTILE[:-1]:
        assert books.statement(name, "2026-05").total_usd == 1
