"""The meter that commands ask where nobody names one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinks import directory_lock
from sinks.errors import QueriesOff, SinkError, StoreUnreachable
from streams.cli import running_meter
from streams.cli.running_meter import of_running_meter, says_if_none_runs
from streams.cli.top.sources import Found, source_for
from streams.config.settings import Settings
from streams.errors import TrainfareError, WrongUseError
from streams.web import running
from streams.web.endpoint import Endpoint, announce
from streams.web.running import RunningMeter


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "folder", lambda: tmp_path / "noted")


def meter(data: Path, port: int) -> Path:
    """A directory that this process serves."""
    directory_lock.acquire(data)
    url = f"http://127.0.0.1:{port}"
    announce(data, Endpoint(url, os.getpid()))
    running.note(RunningMeter(url, os.getpid(), str(data)))
    return data


def beside_a_server(port: int) -> None:
    running.note(RunningMeter(f"http://127.0.0.1:{port}", os.getpid(), None))


def of(**groups: dict[str, object]) -> Settings:
    return Settings.model_validate(groups)


def test_the_one_that_runs_is_asked_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = meter(tmp_path / "demo", 8801)
    assert of_running_meter(of()).clickhouse.data_dir == data
    assert capsys.readouterr().err == f"asks the meter at http://127.0.0.1:8801 (--data {data})\n"
    directory_lock.release(data)


@pytest.mark.parametrize("given", [{"url": "http://ch:8123"}, {"data_dir": "/elsewhere"}, {"user": "me"}])
def test_a_store_that_is_named_is_the_one(tmp_path: Path, given: dict[str, object]) -> None:
    data = meter(tmp_path / "demo", 8801)
    settings = of(clickhouse=given)
    assert of_running_meter(settings) is settings
    directory_lock.release(data)


def test_of_several_one_has_to_be_named(tmp_path: Path) -> None:
    data = meter(tmp_path / "demo", 8801)
    other = meter(tmp_path / "team", 8802)
    with pytest.raises(WrongUseError, match=f"2 meters run .*--data {data} .*8801.*--data {other} .*8802"):
        of_running_meter(of())
    assert of_running_meter(of(web={"port": 8802})).clickhouse.data_dir == other
    for each in (data, other):
        directory_lock.release(each)


def test_a_worker_beside_a_server_is_one_of_them(tmp_path: Path) -> None:
    beside_a_server(8803)
    settings = of()
    assert of_running_meter(settings) is settings, "its server is the configured one"
    data = meter(tmp_path / "demo", 8801)
    with pytest.raises(WrongUseError, match="2 meters run"):
        of_running_meter(settings)
    directory_lock.release(data)


def test_one_that_has_left_is_not_asked(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    data.mkdir()
    running.note(RunningMeter("http://127.0.0.1:8801", os.getpid(), str(data)))
    settings = of()
    assert of_running_meter(settings) is settings, "nobody has the directory open"


@pytest.mark.parametrize("fault", [StoreUnreachable("ClickHouse does not answer"), QueriesOff("SQL is off")])
def test_where_none_runs_it_is_said_what_to_give(fault: SinkError) -> None:
    said = f"no meter of yours runs .*--data DIR.*{fault}"
    with pytest.raises(TrainfareError, match=said), says_if_none_runs(of()):
        raise fault
    with pytest.raises(type(fault), match=f"^{fault}$"), says_if_none_runs(of(clickhouse={"user": "me"})):
        raise fault


def test_the_live_table_finds_it_too(tmp_path: Path) -> None:
    data = meter(tmp_path / "demo", 8801)
    source = source_for(of())
    assert isinstance(source, Found)
    assert source._settings.clickhouse.data_dir == data
    directory_lock.release(data)


def test_an_act_goes_to_the_same_meter(tmp_path: Path) -> None:
    from streams.cli.acting import worker_at

    data = meter(tmp_path / "demo", 8801)
    assert worker_at(None, None, of())._url == "http://127.0.0.1:8801"
    directory_lock.release(data)
    with pytest.raises(TrainfareError, match=running_meter.NONE_RUNS.partition("(")[0]):
        worker_at(None, None, of(web={"bind": "127.0.0.9"})).whoami()
