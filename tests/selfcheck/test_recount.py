"""A recount agrees with what a replay stored, row by row, and finds each row that was planted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.cli.recount import instant_ms, recount, span_of
from streams.config.settings import Settings
from streams.errors import WrongUseError
from streams.selfcheck.audit.live import asking
from streams.selfcheck.audit.tables import stored_findings
from streams.selfcheck.recount.recount import Span
from streams.selfcheck.recount.recount_result import RecountResult
from tests.replay.logs import BEGIN_MS, write_log
from tests.replay.replay_process import replay
from tests.sinks.stores import embedded

MINUTE_MS = 60_000
MINUTES = 4
SPAN = Span(BEGIN_MS - 30 * MINUTE_MS, BEGIN_MS + 30 * MINUTE_MS)
FIRST_MINUTE_S = BEGIN_MS // 60_000 * 60 + 60


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, the second appended, with lines that are no events and one event twice."""
    home = tmp_path_factory.mktemp("replayed")
    first = write_log(home / "a.jsonl", jobs=6, minutes=MINUTES)
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join([*lines, lines[7], b"{\n", b'{"topic": "jobs", "value": {"a": 1}}\n']))
    write_log(home / "b.jsonl", jobs=3, minutes=MINUTES + 2, seed=2, first_job=10, prices=False)
    replay([first], home / "data")
    replay([home / "b.jsonl"], home / "data", append=True)
    return home


@pytest.fixture
def opened(replayed: Path, tmp_path: Path) -> Iterator[ClickHouseStore]:
    shutil.copytree(replayed / "data", tmp_path / "data", symlinks=True)
    with embedded(tmp_path / "data") as store:
        yield store


def again(store: ClickHouseStore, home: Path, span: Span = SPAN) -> RecountResult:
    read: list[int] = []
    found = recount(asking(store), Settings(), span, [home / "a.jsonl", home / "b.jsonl"], read.append)
    assert sum(read) == found.records > 250
    return found


def broken(store: ClickHouseStore, sql: str) -> None:
    store._connection.call(lambda client: client.command(sql))


def test_an_untouched_replay_agrees_in_every_row_and_its_tables_balance(
    opened: ClickHouseStore, replayed: Path
) -> None:
    found = again(opened, replayed)
    stored = sum(
        opened.query(f"SELECT count() AS n FROM {table} FINAL WHERE quantity != 0")["n"][0].as_py()
        for table in ("job_minutes", "node_minutes")
    )
    assert found.ok
    assert (found.agree, found.newer, found.unsettled, found.unverifiable) == (stored, 0, 0, [])
    books, findings = stored_findings(asking(opened))
    assert [finding.detail for finding in findings if not finding.ok] == []
    assert sum(book.duplicate for book in books) == 1
    assert sum(book.dead_lettered for book in books) == 1


def test_a_part_of_the_minutes_is_compared_alone(opened: ClickHouseStore, replayed: Path) -> None:
    whole = again(opened, replayed).agree
    part = again(opened, replayed, Span(BEGIN_MS + MINUTE_MS, BEGIN_MS + 2 * MINUTE_MS))
    assert part.ok
    assert 0 < part.agree < whole / 3


def test_a_wrong_row_a_missing_one_and_one_too_many_are_named(
    opened: ClickHouseStore, replayed: Path
) -> None:
    where = f"job_id = 'job-1' AND component = 'gpu' AND minute = {FIRST_MINUTE_S}"
    broken(
        opened,
        f"INSERT INTO job_minutes SELECT * REPLACE(cost_usd + 1 AS cost_usd) FROM job_minutes FINAL WHERE {where}",
    )
    broken(
        opened,
        f"DELETE FROM job_minutes WHERE job_id = 'job-2' AND component = 'gpu' AND minute = {FIRST_MINUTE_S}",
    )
    broken(
        opened,
        "INSERT INTO job_minutes SELECT * REPLACE('job-9' AS job_id) FROM (SELECT * FROM job_minutes FINAL "
        f"WHERE job_id = 'job-3' AND component = 'gpu' AND minute = {FIRST_MINUTE_S})",
    )
    found = again(opened, replayed)
    assert not found.ok
    assert (found.differ, found.missing, found.extra) == (1, 1, 1)
    words = "\n".join(found.differences)
    assert (
        "job_minutes minute 2023-12-31 05:21 UTC job_id=job-1 attempt=1 node=node-job-1 component=gpu"
        in words
    )
    assert (
        "quantity 240000000 at $2.500000000 = $1.166666667 is stored, the log says quantity 240000000 at"
        in words
    )
    assert "job_id=job-2" in words
    assert ": not stored, the log says quantity" in words
    assert "job_id=job-9" in words
    assert "is stored, the log says nothing of it" in words


@pytest.mark.parametrize("files", [[], ["b.jsonl", "a.jsonl"], ["a.jsonl"]])
def test_other_files_than_those_replayed_are_refused(
    opened: ClickHouseStore, replayed: Path, files: list[str]
) -> None:
    with pytest.raises(
        WrongUseError, match="name the 2 that were replayed into this directory, in their order"
    ):
        recount(asking(opened), Settings(), SPAN, [replayed / name for name in files], lambda _: None)


@pytest.mark.parametrize(
    "text", ["2024-01-01T00:00", "2024-01-01", "2024-01-01T01:00+01:00", "1704067200000"]
)
def test_instants_are_ms_or_iso_in_utc(text: str) -> None:
    assert instant_ms(text) == 1_704_067_200_000


def refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(WrongUseError, match=said):
        call()


def test_instants_that_are_none_and_spans_that_go_back_are_refused() -> None:
    refused(lambda: instant_ms("yesterday"), "yesterday: no instant; expected ms since 1970")
    refused(lambda: span_of("2024-01-02", "2024-01-01"), "the second instant must be later")
