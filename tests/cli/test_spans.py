"""Spans in relative words: what each is at a given instant, what is refused, and commands that take them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streams.cli.spans import AskedSpan, ResolvedSpan, Step
from streams.errors import WrongUseError
from tests.cli.command import ROOT, trainfare

#: A Wednesday.
NOW_MS = round(datetime(2026, 11, 25, 15, 20, 7, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000
ASKED = {
    "--last 12h": AskedSpan(last="12h"),
    "--last 7d": AskedSpan(last="7d"),
    "--last 2w": AskedSpan(last="2w"),
    "--last-week": AskedSpan(last_week=True),
    "--month 2026-10": AskedSpan(month="2026-10"),
    "--from 2026-10-01 --to 2026-11-01": AskedSpan(first="2026-10-01", until="2026-11-01"),
}


def test_the_page_says_what_each_span_is() -> None:
    """Every row of the table in docs/reference.md, at the instant that the page names."""
    section = (ROOT / "docs" / "reference.md").read_text().partition("\n## Spans\n")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", line) for line in section.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == list(ASKED)
    assert "2026-11-25 15:20" in section
    for asked, hours, days in rows:
        for step, told in ((Step.hour, hours), (Step.day, days)):
            if told == "refused":
                with pytest.raises(WrongUseError, match="whole days"):
                    ASKED[asked].resolved(NOW_MS, step)
            else:
                span = ASKED[asked].resolved(NOW_MS, step)
                assert f"{_short(span.first)} to {_short(span.until)}" == told


def _short(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")


@pytest.mark.parametrize(
    ("now", "first", "until"),
    [
        ("2026-11-23T00:00", "2026-11-16", "2026-11-23"),
        ("2026-11-22T23:59:59", "2026-11-09", "2026-11-16"),
        ("2027-01-01T00:00", "2026-12-21", "2026-12-28"),
    ],
)
def test_last_week_begins_on_a_monday_of_utc(now: str, first: str, until: str) -> None:
    now_ms = round(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp() * 1000)
    assert AskedSpan(last_week=True).resolved(now_ms) == ResolvedSpan(first, until)


def test_months_end_where_the_next_begins_and_nothing_asked_has_no_limit() -> None:
    assert AskedSpan(month="2026-12").resolved(NOW_MS) == ResolvedSpan("2026-12-01", "2027-01-01")
    assert AskedSpan(month="2028-02").resolved(NOW_MS) == ResolvedSpan("2028-02-01", "2028-03-01")
    assert AskedSpan().resolved(NOW_MS) == ResolvedSpan("", "")
    assert AskedSpan(last="999999w").resolved(NOW_MS, Step.day).first == "1970-01-01"


@pytest.mark.parametrize(
    "last", ["0d", "-1d", "7", "d", "7 d", "7D", "1.5h", "٣d", "1000000d", "7d\n", "30m", "1month"]
)
def test_what_is_no_span_is_refused(last: str) -> None:
    with pytest.raises(WrongUseError, match=r"^--last .*: expected a span such as 12h, 7d or 2w$"):
        AskedSpan(last=last).resolved(NOW_MS)


@pytest.mark.parametrize(
    "month", ["2026-13", "2026-1", "2026", "1969-12", "2026-10-01", "october", "٢٠٢٦-10"]
)
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(WrongUseError, match=r"^--month .*: expected a month such as 2026-10$"):
        AskedSpan(month=month).resolved(NOW_MS)


@pytest.mark.parametrize("command", ["idle", "costs", "bills reconcile", "bills export"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--last 7d --last-week", "--last-week: --last names a span already"),
        ("--from 2026-10-01 --last 7d", "--last: --from or --to names a span already"),
        ("--to 2026-10-01 --month 2026-10", "--month: --from or --to names a span already"),
        ("--last seven", "--last seven: expected a span such as"),
        ("--month 2026-13", "--month 2026-13: expected a month"),
    ],
)
def test_commands_take_one_span(tmp_path: Path, command: str, words: str, told: str) -> None:
    done = trainfare(*command.split(), *words.split(), "--data", tmp_path / "none")
    assert done.code == 2
    assert told in done.one_line()


def test_a_week_of_idle_nodes(tmp_path: Path) -> None:
    """A node of the week before the clock's own, and one of long ago: `--last-week` has the first alone."""
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    monday = datetime.fromisoformat(AskedSpan(last_week=True).resolved(now_ms).first).replace(tzinfo=UTC)
    week_ms = round(monday.timestamp() * 1000)

    def line(topic: str, at_ms: int, **value: object) -> str:
        body = {"source": "t", "id": f"{topic}-{at_ms}-{value.get('type')}", "time_ms": at_ms, **value}
        return json.dumps({"topic": topic, "value": body}) + "\n"

    long_ago_ms = week_ms - 30 * 24 * HOUR_MS
    lines = [line("prices", long_ago_ms, sku="g", component="gpu", usd="0.6", per="gpu_hour", effective_ms=0)]
    for node, at_ms in (("old", long_ago_ms), ("new", week_ms + HOUR_MS)):
        lines.append(line("nodes", at_ms, node=node, type="provisioned", gpu_count=1))
        lines.append(line("nodes", at_ms + HOUR_MS, node=node, type="terminated"))
    (tmp_path / "events.jsonl").write_text("".join(lines))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "events.jsonl", "--data", data).code == 0

    def nodes(*words: str) -> list[str]:
        done = trainfare("idle", "--by", "node", *words, "--format", "json", "--data", data)
        assert done.code == 0, done.err
        return sorted(row["node"] for row in json.loads(done.out))

    assert nodes() == ["new", "old"]
    assert nodes("--last-week") == nodes("--last", "15d") == ["new"]
    assert nodes("--month", "1999-01") == []
    done = trainfare("costs", "--metric", "m3", "--last-week", "--format", "json", "--data", data)
    assert [row["idle_cost_usd"] for row in json.loads(done.out)] == ["0.600000000"]
