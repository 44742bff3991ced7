from collections import Counter
from datetime import datetime

import pytest

from schemas.tables import JOB_MINUTES, JOBS
from sinks.clickhouse import insert, select
from sinks.errors import SinkError
from sinks.rows import Condition
from tests.sinks.rows import rows


def month(number: int) -> datetime:
    return datetime.fromisoformat(f"{2001 + number // 12}-{number % 12 + 1:02}-15T00:00+00:00")


@pytest.mark.parametrize("months", [1, 89, 90, 91, 180, 181, 400])
def test_no_piece_touches_more_than_ninety_months_and_none_is_lost(months: int) -> None:
    given = rows(JOB_MINUTES, *({"minute": month(m), "node": str(n)} for m in range(months) for n in (1, 2)))
    pieces = list(insert.pieces(JOB_MINUTES, given, "t"))
    assert len(pieces) == -(-months // 90)
    assert all(len(set(piece.rows["minute"].to_pylist())) <= 90 for piece in pieces)
    assert Counter(m for piece in pieces for m in piece.rows["minute"].to_pylist()) == Counter(
        given["minute"].to_pylist()
    )


def test_pieces_have_tokens_of_their_own_and_the_same_each_time() -> None:
    given = rows(JOB_MINUTES, *({"minute": month(m)} for m in range(200)))
    tokens = [piece.token for piece in insert.pieces(JOB_MINUTES, given, "t")]
    assert tokens == ["t:0", "t:1", "t:2"]
    assert list(insert.pieces(JOB_MINUTES, given, "t")) == list(insert.pieces(JOB_MINUTES, given, "t"))


def test_many_rows_are_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert, "MOST_ROWS", 3)
    given = rows(JOBS, *({"job_id": str(i)} for i in range(7)))
    assert [piece.rows.num_rows for piece in insert.pieces(JOBS, given, "t")] == [3, 3, 1]


def test_values_are_bound_and_never_in_the_text() -> None:
    statement = select.select(
        JOBS, [Condition("job_id", "=", "x' OR 1"), Condition("version", ">", 2**63)], ["state"]
    )
    assert statement.sql == (
        "SELECT `state` FROM `jobs` FINAL WHERE `job_id` = {p0:String} AND `version` > {p1:UInt64} ORDER BY `job_id`"
    )
    assert statement.parameters == {"p0": "x' OR 1", "p1": 2**63}


def test_a_deletion_without_a_condition_is_refused() -> None:
    with pytest.raises(SinkError, match="must say which rows"):
        select.delete(JOBS, [], wait=True)


@pytest.mark.parametrize("column", ["nope", "job_id` OR 1"])
def test_unknown_columns_are_refused(column: str) -> None:
    with pytest.raises(SinkError, match="no column"):
        select.select(JOBS, [Condition(column, "=", 1)], None)
    with pytest.raises(SinkError, match="no column"):
        select.select(JOBS, [], [column])
