"""`trainfare sql --param`: values of the parameters of a statement are values, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sinks.query
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.errors import QueryFailed
from sinks.query import QueryLimits
from sinks.query.limits import OWN_NICE
from streams.cli.query import sql
from tests.cli.command import trainfare
from tests.new_store import begun
from tests.query.honest import AWKWARD


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("sql") / "meter"
    ClickHouseStore(Embedded(data_dir=data)).close()
    return data


def asked(data: Path, sql: str, *params: str) -> list[dict[str, Any]]:
    words = [word for each in params for word in ("--param", each)]
    done = trainfare("sql", sql, *words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_values_of_every_type_keep_their_digits(data: Path) -> None:
    sql = (
        "SELECT {i:Int64} AS i, {u:UInt64} AS u, {d:Decimal(18, 9)} AS d, {f:Float64} AS f, {b:Bool} AS b, {t:DateTime64(3)} AS t, "
        "{ a : Array(UInt64) } AS a, {e:Array(Decimal(9, 2))} AS e, {s:Array(String)} AS s, {n:Array(Int64)} AS n"
    )
    (found,) = asked(
        data, sql, "i=-9223372036854775808", "u=18446744073709551615", "d=1.000000001", "f=-1e-3", "b=true",
        "t=2026-03-01 12:00:00.5", "a=[18446744073709551615]", "e=1.5, 2", "s=a, b", "n=",
    )  # fmt: skip
    assert found == {
        "i": -9223372036854775808, "u": 18446744073709551615, "d": "1.000000001", "f": -0.001, "b": True,
        "t": "2026-03-01T12:00:00.500000Z", "a": [18446744073709551615], "e": ["1.50", "2.00"], "s": ["a", "b"], "n": [],
    }  # fmt: skip


def test_a_text_is_a_value_whatever_it_has(data: Path) -> None:
    # A word of a command holds neither NUL nor, here, a text of thousands of characters.
    texts = [text for text in AWKWARD if len(text) < 1_000]
    columns = ", ".join(f"{{t{at}:String}} AS t{at}" for at in range(len(texts)))
    array = json.dumps(texts)
    given = [f"t{at}={text}" for at, text in enumerate(texts)]
    (found,) = asked(data, f"SELECT {columns}, {{all:Array(String)}} AS every", *given, f"all={array}")
    assert [found[f"t{at}"] for at in range(len(texts))] == texts
    assert found["every"] == texts


@pytest.mark.parametrize(
    ("sql", "params", "code", "said"),
    [
        ("SELECT {x:Int64}", [], 1, "the parameter x has no value"),
        ("SELECT {x:Int64}", ["x=abc"], 1, "the parameter x is of type Int64, and 'abc' is none"),
        ("SELECT 1", ["x=1"], 2, "the query has no parameter {x:Type}"),
        ("SELECT {x:Identifier}", ["x=jobs"], 2, "a parameter stands for a value"),
        ("SELECT {x:Int64}", ["x"], 2, "--param x: expected NAME=VALUE"),
        ("SELECT {x:Int64}", ["=1"], 2, "--param =1: expected NAME=VALUE"),
        ("SELECT {x:Int64}", ["x=1", "x=2"], 2, "--param x: given twice"),
        ("SELECT {x:Array(Int64)}", ["x=a"], 2, "expected a JSON array of values, or values of type Int64"),
        ("SELECT {x:Array(Int64)}", ["x=[[1]]"], 2, "expected a JSON array of values"),
        ("SELECT {x:Array(Float64)}", ["x=nan"], 2, "expected a JSON array of values"),
        ("SELECT {x:Array(Int64)}", ["x=" + "[" * 20_000], 2, "expected a JSON array of values"),
        ("SELECT {x:Array(Int64)}", ["x=[1180591620717411303424]"], 1, "the parameter x is of type Int64"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused_in_one_line(
    data: Path, sql: str, params: list[str], code: int, said: str
) -> None:
    words = [word for each in params for word in ("--param", each)]
    done = trainfare("sql", sql, *words, "--data", data)
    assert (done.code, done.out) == (code, "")
    assert said in done.one_line()


def test_a_statement_at_a_terminal_is_not_starved_by_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended at its limit of 30 s on a busy machine: at the priority of others' statements it got a hundredth of a core."""
    begun_with: list[QueryLimits] = []

    def refuse(source: object, limits: QueryLimits, spawned: object) -> None:
        begun_with.append(limits)
        raise QueryFailed("seen")

    monkeypatch.setattr(sinks.query, "QueryProcess", refuse)
    with pytest.raises(QueryFailed, match="seen"):
        sql("SELECT 1", data=begun(tmp_path / "data"))
    assert [each.nice for each in begun_with] == [OWN_NICE]
