"""Idle cost of 150 nodes for a month, asked as through a worker: within the memory that one query may take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from schemas.tables import JOB_MINUTES, NODE_HOURS, NODE_MINUTES, SCHEMAS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.query import arrow
from sinks.query.limits import QueryLimits
from sinks.query.pool import QueryPool
from sinks.target import query_source
from streams.cli import chargeback, costs, idle
from streams.cli.main import build
from streams.cli.reading import Reader
from streams.worker.storing.balances import keep_settled
from tests.sinks.rows import instant, row
from tests.sinks.stores import embedded

NODES, DAYS = 150, 31
HOURS = 24 * DAYS
FIRST = instant("2026-05-01 00:00")
#: All rows of a view.
ROWS = "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {}"
#: A machine that is busy needs more than 30 s.
LIMITS = QueryLimits(time_ms=600_000)
ONE_STATEMENT = "SELECT cluster, sum(idle_cost_usd) FROM node_hour_balance GROUP BY cluster"


class Pooled:
    """Asks a process for the SQL of users, which has the limits of a worker: of memory those of the defaults."""

    store = None

    def __init__(self, pool: QueryPool) -> None:
        self._pool = pool

    def ask(self, sql: str, parameters: dict[str, object]) -> QueryResult:
        found = self._pool.new_run().answer(sql, parameters, "arrow")  # type: ignore[arg-type]  # values of parameters
        try:
            return arrow.decode(os.pread(found.descriptor, found.size_bytes, 0))
        finally:
            os.close(found.descriptor)


def fill(store: ClickHouseStore) -> None:
    """Each node costs $1 in the first minute of an hour, of which a job pays 25 cents: memory is taken by the hour."""
    cells = [(f"node-{number:04}", at) for number in range(NODES) for at in range(HOURS)]
    names = pa.array([name for name, _ in cells])
    times = pa.array([FIRST + timedelta(hours=at) for _, at in cells])
    usual = {
        NODE_MINUTES: {"quantity": 1, "cost_usd": Decimal(1), "unit": "gpu_milli_ms"},
        JOB_MINUTES: {"job_id": "j", "quantity": 1, "cost_usd": Decimal("0.25")},
        NODE_HOURS: {"paid_ms": 60_000, "gpu_milli_ms": 1, "cluster": "c", "gpu_type": "H100", "team": "red"},
    }
    for table, values in usual.items():
        columns = {
            name: pa.array([value] * len(cells), SCHEMAS[table].field(name).type)
            for name, value in row(table, values).items()
        }
        columns |= {"node": names, "hour" if table == NODE_HOURS else "minute": times}
        store.insert(table, pa.table(columns).cast(SCHEMAS[table]), table)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("idle") / "meter") as store:
        fill(store)
        yield store


@pytest.fixture(scope="module")
def pool(store: ClickHouseStore) -> Iterator[QueryPool]:
    pool = QueryPool(query_source(store.target), LIMITS)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def commands(store: ClickHouseStore) -> Iterator[QueryPool]:
    """What asks for commands: with two threads."""
    pool = QueryPool(query_source(store.target), LIMITS.of_product(is_own=False))
    yield pool
    pool.close()


@pytest.fixture
def ask(commands: QueryPool, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    @contextmanager
    def through_worker(_settings: object) -> Iterator[Reader]:
        yield Reader(Pooled(commands))  # type: ignore[arg-type]  # only asked

    for command in (idle, costs, chargeback):
        monkeypatch.setattr(command, "reader", through_worker)

    def ask(*words: str) -> str:
        done = CliRunner().invoke(build(words), [*words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return ask


def test_one_statement_takes_more(pool: QueryPool) -> None:
    """Else the tests below would show nothing."""
    with pytest.raises(QueryFailed, match="128 MiB of memory"):
        Pooled(pool).ask(ONE_STATEMENT, {})


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (
            "idle --by cluster",
            "c,1860.000,111600.000000000,27900.000000000,83700.000000000,0.000000000,0.000000000,0.75",
        ),
        ("idle --findings", 'provisioning_burst,2026-05-01 00:00:00,,,,"150 new nodes in c, usual: 0"'),
        (
            "costs --metric m3 --by cluster",
            "c,,111600.000000000,83700.000000000,0.000000000,0.000000000,0.0,0.75",
        ),
    ],
)
def test_a_month_of_150_nodes(ask: Callable[..., str], words: str, row: str) -> None:
    _, *rows = ask(*words.split(), "--format", "csv").splitlines()
    assert rows == [row]


def test_chargeback_of_a_month_of_150_nodes(ask: Callable[..., str]) -> None:
    header, *rows = ask("chargeback", "--month", "2026-05", "--format", "csv").splitlines()
    at = header.split(",").index("idle_usd")
    assert sum(Decimal(row.split(",")[at]) for row in rows) == 83_700


def test_views_of_days_that_are_kept_ready(pool: QueryPool, store: ClickHouseStore) -> None:
    """The last test: no day is kept ready for those above."""
    views = ("node_hour_balance", "idle_hours", "m3_unallocated_ratio", "forgotten_nodes", "right_sizing")
    for view in views[:3]:
        with pytest.raises(QueryFailed, match=r"128 MiB of memory .* a shorter time \(minute >=, hour >=\)"):
            Pooled(pool).ask(ROWS.format(view), {})
    # Without a limit.
    before = {view: list(store.ask(ROWS.format(view), {}).rows()) for view in views}
    keep_settled(store)
    after = {view: list(Pooled(pool).ask(ROWS.format(view), {}).rows()) for view in views}
    assert after == before
    assert before["node_hour_balance"][0][0] == NODES * HOURS
