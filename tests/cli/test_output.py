"""Rows as text, JSON and CSV; programs get every digit."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from streams.cli.output import Format, Grid, stamp, usd, write

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GRID = Grid(
    ("job_id", "cost_usd", "at", "labels"),
    [("a", Decimal("12.340000001"), AT, {"k": "v"}), ("[b]", Decimal("0.000000000"), None, {})],
)


class Terminal(io.StringIO):
    """A stream on which somebody looks."""

    def isatty(self) -> bool:
        return True


def written(form: Format, stream: io.StringIO | None = None) -> str:
    out = stream or io.StringIO()
    write(GRID, form, out)
    return out.getvalue()


def test_json_keeps_every_digit_and_instants_in_utc() -> None:
    first, second = json.loads(written(Format.json))
    assert first == {
        "job_id": "a",
        "cost_usd": "12.340000001",
        "at": "2026-03-01T12:00:00Z",
        "labels": {"k": "v"},
    }
    assert second["at"] is None


def test_csv_keeps_every_digit() -> None:
    assert written(Format.csv) == (
        "job_id,cost_usd,at,labels\na,12.340000001,2026-03-01 12:00:00,k=v\n[b],0.000000000,,\n"
    )


def test_plain_text_is_aligned_and_without_colour() -> None:
    lines = written(Format.table).splitlines()
    assert lines[0].split() == ["job_id", "cost_usd", "at", "labels"]
    assert "\x1b" not in written(Format.table)
    assert lines[1].index("12.34") == lines[2].index("0.000") - 1


def test_terminal_table_shows_brackets_of_data_as_they_are() -> None:
    assert "[b]" in written(Format.table, Terminal())


def test_empty_answers_keep_their_header() -> None:
    out = io.StringIO()
    write(Grid(("a", "b"), []), Format.csv, out)
    write(Grid(("a", "b"), []), Format.table, out)
    assert out.getvalue() == "a,b\na  b\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0", "0.00"),
        ("1234.567", "1,234.57"),
        ("0.01234", "0.0123"),
        ("0.000000001", "0.000000001"),
        ("-2", "-2.00"),
    ],
)
def test_dollars_for_people(value: str, shown: str) -> None:
    assert usd(Decimal(value)) == shown


def test_milliseconds_only_where_there_are_some() -> None:
    assert stamp(AT) == "2026-03-01 12:00:00"
    assert stamp(AT.replace(microsecond=5_000)) == "2026-03-01 12:00:00.005"
