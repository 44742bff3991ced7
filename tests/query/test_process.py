"""A process for queries: ended by the kernel past its time, replaced when it is gone, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.errors import QueriesOff, QueryFailed
from sinks.query import QueryLimits, QueryProcess, StoreFiles
from sinks.query import process as processes
from sinks.query.pool import IDLE_S, QueryPool
from sinks.query.process import Answered
from sinks.query.wire import Form
from sinks.target import Embedded
from tests.logged import logged
from tests.new_store import begun
from tests.query import priority

ROOT = Path(__file__).parents[2]
NOWHERE = StoreFiles("/nowhere", "trainfare")


@pytest.fixture
def source(tmp_path: Path) -> StoreFiles:
    """The files of an empty store."""
    target = Embedded(data_dir=begun(tmp_path / "data"))
    return StoreFiles(str(target.engine_dir), target.database)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def rows(answer: Answered) -> list[list[object]]:
    with os.fdopen(answer.descriptor, "rb") as file:
        file.seek(0)
        found: list[list[object]] = json.loads(file.read())["rows"]
        return found


@pytest.fixture
def limits() -> QueryLimits:
    """Those of the settings: a short time is for the tests of what happens at its end, as a busy machine needs more."""
    return QueryLimits()


@pytest.fixture
def process(source: StoreFiles, scratch: Path, limits: QueryLimits) -> Iterator[QueryProcess]:
    made = QueryProcess(source, limits)
    yield made
    made.close()
    assert not list(scratch.iterdir()), "it leaves nothing behind"


def test_it_gives_way_to_everything_else(source: StoreFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all other tests do not."""
    monkeypatch.setattr(processes, "_START", priority.LOWERED)
    made = QueryProcess(source, QueryLimits())
    try:
        made.wait_ready()
        assert os.getpriority(os.PRIO_PROCESS, made.pid) == 19
    finally:
        made.close()


def test_one_that_does_not_get_to_start_says_so(source: StoreFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START_WITHIN_S", 0.0)
    made = QueryProcess(source, QueryLimits())
    with pytest.raises(QueriesOff, match=r"did not start within 0 s; other work fills the machine"):
        made.wait_ready()


def test_it_starts_in_a_checkout_that_changes_meanwhile(process: QueryProcess) -> None:
    """Python looks a folder through again when it has changed; a confined process may not."""
    started = threading.Event()

    def change() -> None:
        while not started.wait(0.005):
            os.utime(ROOT)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        process.wait_ready()
    finally:
        started.set()
        thread.join()


@pytest.mark.parametrize("limits", [QueryLimits(time_ms=500)])
def test_what_the_engine_does_not_interrupt_the_kernel_ends(process: QueryProcess) -> None:
    folded = ", ".join(f"arrayCount(x -> sipHash64(x, {n}) % 7 = 3, range(3000000))" for n in range(60))
    with pytest.raises(QueryFailed, match=r"ran longer than 0\.5 s and was ended"):
        process.ask(f"SELECT {folded}", {}, "json")
    assert not process.reusable


def test_a_process_that_was_killed_says_so(process: QueryProcess) -> None:
    process.wait_ready()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(QueryFailed, match="ended its process"):
        process.ask("SELECT 1", {}, "json")
    assert not process.reusable


def test_a_store_that_is_not_there_is_said(scratch: Path) -> None:
    process = QueryProcess(NOWHERE, QueryLimits())
    try:
        with pytest.raises(QueriesOff, match="no table in this store yet"):
            process.ask("SELECT 1", {}, "json")
    finally:
        process.close()
    assert not list(scratch.iterdir())


def test_tables_made_later_are_there(source: StoreFiles, process: QueryProcess) -> None:
    assert rows(process.ask("SELECT count() FROM jobs", {}, "json")) == [[0]]
    view = Path(source.engine_dir) / "metadata" / source.database / "job_costs.sql"
    moved = view.with_suffix(".away")
    view.rename(moved)
    assert ["job_costs"] not in rows(process.ask("SHOW TABLES", {}, "json"))
    moved.rename(view)
    assert ["job_costs"] in rows(process.ask("SHOW TABLES", {}, "json"))


class Fake:
    """A process that answers nothing, and counts."""

    made: list[Fake]

    def __init__(self, *_: object) -> None:
        self.reusable = True
        self.closed = False
        Fake.made.append(self)

    def wait_ready(self) -> list[str]:
        return []

    def ask(self, sql: str, parameters: object, form: Form, teams: object) -> Answered:
        self.reusable = sql != "spent"
        return Answered(-1, 0, 0)

    def kill(self) -> None:
        self.reusable = False

    def close(self) -> None:
        self.reusable, self.closed = False, True


def pool_of(now_s: list[float]) -> QueryPool:
    Fake.made = []
    return QueryPool(NOWHERE, QueryLimits(), start=Fake, now_s=lambda: now_s[0])  # type: ignore[arg-type]  # as far as it is used


def test_an_idle_process_is_used_again_then_ended() -> None:
    now_s = [0.0]
    pool = pool_of(now_s)
    pool.new_run().answer("SELECT 1", {}, "json")
    pool.new_run().answer("SELECT 1", {}, "json")
    assert len(Fake.made) == 1
    now_s[0] = IDLE_S
    pool.close_idle()
    assert not Fake.made[0].closed
    now_s[0] = IDLE_S + 1
    pool.close_idle()
    assert Fake.made[0].closed


def test_a_process_of_another_owner_makes_room() -> None:
    pool = pool_of([0.0])
    pool.new_run("a").answer("SELECT 1", {}, "json")
    pool.new_run("b").answer("SELECT 1", {}, "json")
    assert [each.closed for each in Fake.made] == [True, False]
    pool.new_run("b").answer("SELECT 1", {}, "json")
    assert len(Fake.made) == 2


def test_what_the_kernel_left_open_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    pool = pool_of([0.0])
    for _ in range(2):
        pool.warn_of_gaps(["tcp", "network"])
    assert logged(caplog).count("unconfined=tcp, network") == 1


def test_a_table_that_could_not_be_opened_leaves_nothing_open(
    source: StoreFiles, process: QueryProcess
) -> None:
    """A view over two tables, of which the second one's definition is broken for a moment."""
    sql = "SELECT count() FROM job_costs"
    path = Path(source.engine_dir) / "metadata" / source.database / "jobs.sql"
    whole = path.read_text()
    path.write_text(whole.replace("ReplacingMergeTree", "NoSuchEngine"))
    for _ in range(2):
        with pytest.raises(QueryFailed, match="NoSuchEngine"):
            process.ask(sql, {}, "json")
    path.write_text(whole)
    assert rows(process.ask(sql, {}, "json")) == [[0]]


def test_a_process_that_says_nothing_is_ended(source: StoreFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.query.process._GRACE_S", -0.4)
    process = QueryProcess(source, QueryLimits(time_ms=500))
    try:
        process.wait_ready()
        os.kill(process.pid, signal.SIGSTOP)  # its own timer stands still too
        with pytest.raises(QueryFailed, match="ended its process"):
            process.ask("SELECT 1", {}, "json")
    finally:
        process.close()


def test_a_spent_process_is_replaced() -> None:
    pool = pool_of([0.0])
    pool.new_run().answer("spent", {}, "json")
    assert Fake.made[0].closed
    pool.new_run().answer("SELECT 1", {}, "json")
    assert len(Fake.made) == 2


def test_a_process_takes_so_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.query.pool.QUERIES_MAX", 2)
    pool = pool_of([0.0])
    for _ in range(3):
        pool.new_run().answer("SELECT 1", {}, "json")
    assert len(Fake.made) == 2


def test_a_run_cancelled_before_it_began_asks_nobody() -> None:
    pool = pool_of([0.0])
    run = pool.new_run()
    run.cancel()
    with pytest.raises(QueryFailed, match="cancelled"):
        run.answer("SELECT 1", {}, "json")
    assert all(each.reusable for each in Fake.made), "a process that was not asked is kept"


def test_a_closed_pool_takes_nothing() -> None:
    pool = pool_of([0.0])
    pool.new_run().answer("SELECT 1", {}, "json")
    pool.close()
    assert Fake.made[0].closed
    with pytest.raises(QueryFailed, match="stopping"):
        pool.new_run()
