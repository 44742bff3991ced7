"""Rows as text, JSON and CSV; programs get every digit."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from schemas.escaping import visible
from streams.cli.output import Grid, OutputFormat, plain, stamp, usd, write

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GRID = Grid(
    ("job_id", "cost_usd", "at", "labels"),
    [("a", Decimal("12.340000001"), AT, {"k": "v"}), ("[b]", Decimal("0.000000000"), None, {})],
)


class Terminal(io.StringIO):
    """A stream on which somebody looks."""

    def isatty(self) -> bool:
        return True


def written(form: OutputFormat, stream: io.StringIO | None = None) -> str:
    out = stream or io.StringIO()
    write(GRID, form, out)
    return out.getvalue()


def test_json_keeps_every_digit_and_instants_in_utc() -> None:
    first, second = json.loads(written(OutputFormat.json))
    assert first == {
        "job_id": "a",
        "cost_usd": "12.340000001",
        "at": "2026-03-01T12:00:00Z",
        "labels": {"k": "v"},
    }
    assert second["at"] is None


def test_csv_keeps_every_digit() -> None:
    assert written(OutputFormat.csv) == (
        "job_id,cost_usd,at,labels\na,12.340000001,2026-03-01 12:00:00,k=v\n[b],0.000000000,,\n"
    )


def test_plain_text_is_aligned_and_without_colour() -> None:
    lines = written(OutputFormat.table).splitlines()
    assert lines[0].split() == ["job_id", "cost_usd", "at", "labels"]
    assert "\x1b" not in written(OutputFormat.table)
    assert lines[1].index("12.34") == lines[2].index("0.000") - 1


def test_terminal_table_shows_brackets_of_data_as_they_are() -> None:
    assert "[b]" in written(OutputFormat.table, Terminal())


def on_terminal(grid: Grid, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    write(grid, OutputFormat.table, out)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


WIDE = Grid(
    ("experiment_id", "usd_per_productive_gpu_hour", "text"),
    [("run-2026-06-01-a-long-identifier", "1,234.567890", "several words that may be on two lines")],
)


def test_a_narrow_terminal_breaks_texts_and_heads_but_no_number_or_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for columns in (120, 100, 80, 62):
        lines = on_terminal(WIDE, columns, monkeypatch)
        assert max(map(len, lines)) <= columns
        for word in ("run-2026-06-01-a-long-identifier", "1,234.567890", "productive_", "several", "lines"):
            assert any(word in line for line in lines), (columns, word)


def test_names_of_columns_are_broken_before_any_text_is(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(("share", "wall_clock_h", "unpriced_gpu_h"), [(" 40% ████▊", "203.045", "0.000")])
    lines = on_terminal(grid, 30, monkeypatch)
    assert max(map(len, lines)) <= 30
    assert [line for line in lines if "█" in line] == [lines[-1]]
    assert lines[-1].split() == ["40%", "████▊", "203.045", "0.000"]


def test_a_table_that_is_still_too_wide_lies_on_its_side(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_terminal(WIDE, 40, monkeypatch)
    assert lines == [
        "experiment_id                run-2026-06-01-a-long-identifier",
        "usd_per_productive_gpu_hour  1,234.567890",
        "text                         several words that may be on two lines",
    ]


def test_a_sentence_on_its_side_goes_on_below_its_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(
        ("alert", "sentence"), [("x" * 50, "it burns more than it should, so scale it back or declare it")]
    )
    assert on_terminal(grid, 50, monkeypatch) == [
        f"alert     {'x' * 50}",
        "sentence  it burns more than it should, so scale",
        "          it back or declare it",
    ]


HOSTILE = "a\x1b]52;c;x\x07\r\nforged\u202e\x9b"
ESCAPED = r"a\x1b]52;c;x\x07\r\nforged\u202e\x9b"


def test_tables_are_escaped_where_they_are_piped_too() -> None:
    grid = Grid((HOSTILE, "labels"), [(HOSTILE, {HOSTILE: HOSTILE})])
    for out in (io.StringIO(), Terminal()):
        write(grid, OutputFormat.table, out)
        text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
        assert text.replace("\n", "").replace(" ", "").count(ESCAPED) == 4
        assert visible(text, lines=True) == text


def test_json_is_exact_and_csv_escaped_wherever_they_go() -> None:
    grid = Grid(("name",), [(HOSTILE,)])
    for out in (io.StringIO(), Terminal()):
        write(grid, OutputFormat.json, out)
        assert json.loads(out.getvalue()) == [{"name": HOSTILE}]
        assert visible(out.getvalue(), lines=True) == out.getvalue()
    for out in (io.StringIO(newline=""), Terminal(newline="")):
        write(grid, OutputFormat.csv, out)
        assert out.getvalue() == f'name\n"{ESCAPED}"\n'


RUN = [
    "=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\tx", "\rx", "\nx", " =1", "\u3000=1", "\u200b=1",
    "\ufeff=1", "\x00=1", "\uff1d1+1", "\uff0b1a", "\uff0d1a", "\uff20A1", "\ufe661", "-", "=", "-1-1", "+1e", "--1", "-1,5", '="x"',
]  # fmt: skip


@pytest.mark.parametrize("text", RUN)
def test_a_text_that_a_spreadsheet_would_run_is_quoted_behind_an_apostrophe(text: str) -> None:
    out = io.StringIO(newline="")
    write(Grid(("a", text), [(1, text), ({text: 1}, [text])]), OutputFormat.csv, out)
    quoted = "\"'" + visible(text).replace('"', '""') + '"'
    assert out.getvalue().startswith(f"a,{quoted}\n1,{quoted}\n")
    head, first, second = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert (head, first) == (["a", "'" + visible(text)], ["1", "'" + visible(text)])
    assert second[0] == f"'{visible(text)}=1"


def semicolons(text: str) -> list[list[str]]:
    """Return the cells of a file where `;` separates: quotes count at the beginning of a cell alone."""
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=";"))


@pytest.mark.parametrize("text", [*RUN, "a\x1b[2J", "a\rb", "a\nb", "a\u202eb", "a;b"])
def test_nothing_runs_where_semicolons_separate_either(text: str) -> None:
    out = io.StringIO(newline="")
    write(Grid(("job_id", "team"), [(f"run-7;{text}", f"x;{text};y"), (text, 1)]), OutputFormat.csv, out)
    assert not set(out.getvalue()) & set("\x1b\r\t\x00\u202e")
    assert len(out.getvalue().splitlines()) == 3
    for row in semicolons(out.getvalue()):
        for cell in row:
            assert not cell.lstrip().startswith(
                ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
            ), row
    assert out.getvalue().splitlines()[1].startswith('"run-7;'), "quoted, though a comma separates"


@pytest.mark.parametrize(
    "cell",
    [
        -1,
        -1.5,
        Decimal("-0.000000001"),
        "-12.340000001",
        "+5",
        "-1e-9",
        "a=b",
        "",
        None,
        "'=1",
        "12-3",
        "ü",
        True,
        AT,
    ],
)
def test_numbers_and_other_texts_stay_as_they_are(cell: object) -> None:
    out = io.StringIO()
    write(Grid(("a", "b"), [(cell, 1)]), OutputFormat.csv, out)
    assert out.getvalue() == f"a,b\n{plain(cell)},1\n"


def test_csv_is_what_the_standard_writer_makes_of_other_texts() -> None:
    rng = random.Random(3)
    for _ in range(3_000):
        row = tuple(
            "a" + "".join(rng.choices("b \",'=", k=rng.randrange(6))) for _ in range(rng.randrange(1, 4))
        )
        mine, theirs = io.StringIO(newline=""), io.StringIO(newline="")
        write(Grid(row, []), OutputFormat.csv, mine)
        csv.writer(theirs, lineterminator="\n").writerow(row)
        assert mine.getvalue() == theirs.getvalue()


def test_empty_answers_keep_their_header() -> None:
    out = io.StringIO()
    write(Grid(("a", "b"), []), OutputFormat.csv, out)
    write(Grid(("a", "b"), []), OutputFormat.table, out)
    assert out.getvalue() == "a,b\na  b\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0", "0.00"),
        ("1234.567", "1,234.57"),
        ("0.01234", "0.0123"),
        ("0.01725", "0.0173"),
        ("-1.005", "-1.01"),
        ("0.0042", "0.0042"),
        ("0.005", "0.005"),
        ("-0.0042", "-0.0042"),
        ("0.000000001", "0.000000001"),
        ("1E-12", "<0.000000001"),
        ("-1E-12", ">-0.000000001"),
        ("-2", "-2.00"),
    ],
)
def test_dollars_for_people(value: str, shown: str) -> None:
    assert usd(Decimal(value)) == shown


def test_milliseconds_only_where_there_are_some() -> None:
    assert stamp(AT) == "2026-03-01 12:00:00"
    assert stamp(AT.replace(microsecond=5_000)) == "2026-03-01 12:00:00.005"


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        (("1234.5", "0.0042", "0", "-0.004"), ("1,234.50", "<0.01", "0.00", ">-0.01")),
        (("12.34", "0.0042", "-0.00001", "0"), ("12.3400", "0.0042", ">-0.0001", "0.0000")),
        (("7", "1.005"), ("7.00", "1.01")),
        (("250", "0.05"), ("250.00", "0.05")),
        (("25", "0.05"), ("25.0000", "0.0500")),
        (("25", "0.126"), ("25.00", "0.13")),
        (("0.0000042",), ("<0.0001",)),
        (("0",), ("0.00",)),
    ],
)
def test_dollars_of_a_column_have_one_number_of_decimals_and_none_is_a_zero(
    amounts: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    out = io.StringIO()
    write(Grid(("usd", "name"), [(usd(each), "x") for each in amounts]), OutputFormat.table, out)
    lines = out.getvalue().splitlines()
    assert tuple(line.split()[0] for line in lines[1:]) == shown
    assert len({line.index(" x") for line in lines[1:]}) == 1, "aligned at the right"


def test_dollars_stand_right_beside_what_has_no_price_and_keep_their_words() -> None:
    out = io.StringIO()
    rows = [("a", usd("7.5")), ("b", "unpriced"), ("c", usd("0.25").within(">= {}"))]
    write(Grid(("job", "usd"), rows), OutputFormat.table, out)
    assert out.getvalue().splitlines()[1:] == ["a        7.50", "b    unpriced", "c     >= 0.25"]


def test_dollars_without_a_column_of_their_own_stay_as_they_are() -> None:
    out = io.StringIO()
    write(Grid(("", ""), [("total", usd("7")), ("rate", usd("0.5"))]), OutputFormat.table, out)
    assert out.getvalue() == "total    7.00\nrate   0.5000\n"
