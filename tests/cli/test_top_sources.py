"""Where `trainfare top` finds its figures, what it says when it does not, and what it writes into a pipe."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.tables import ALERTS, BURN_RATES, JOB_MINUTES, JOBS
from sinks.directory_lock import LOCK_NAME
from sinks.private_files import write_private
from streams.cli.top.figures import MeterView, SourceError
from streams.cli.top.sources import (
    DIRECTORY_EVERY_MS,
    Found,
    HttpSource,
    NobodyAnswersError,
    StoreSource,
    announced,
    checked,
    configured,
    source_for,
)
from streams.clock import ManualClock
from streams.config.live import WebSettings
from streams.config.settings import ClickHouseSettings, Settings
from streams.errors import WrongUseError
from streams.web.endpoint import Endpoint, announce
from tests.cli.command import NOBODY, trainfare
from tests.cli.top_api import T0_MS, ScriptedApi
from tests.sinks.rows import MINUTE, rows
from tests.sinks.stores import embedded

TOKEN = "a-token-of-some-length"


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi(token=TOKEN).serving() as serving:
        yield serving


def fetched_fault(source: HttpSource) -> str:
    with pytest.raises(SourceError) as fault:
        source.fetch()
    return str(fault.value)


def test_three_questions_make_a_snapshot(api: ScriptedApi) -> None:
    snapshot = HttpSource(api.url + "/", TOKEN).fetch()
    assert [target.partition("?")[0] for target, _ in api.asked] == [
        "/api/v1/jobs",
        "/api/v1/burn",
        "/api/v1/alerts",
    ]
    assert (len(snapshot.jobs), len(snapshot.alerts), snapshot.burn.jobs_live) == (40, 3, 40)
    assert snapshot.as_of_ms >= T0_MS
    runaway = snapshot.jobs[3]
    assert (runaway.usd_per_hour_now, runaway.ratio) == (Decimal("212.000000000"), 8.0)
    assert runaway.alerts[0].rule == "burn_fast"


def test_a_wrong_token_is_said(api: ScriptedApi) -> None:
    said = fetched_fault(HttpSource(api.url, "another-token-of-length"))
    assert "TRAINFARE_WEB_TOKEN" in said
    assert "another-token" not in said


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "not an answer of trainfare's API"),
        (200, b'{"jobs": 5}', "not an answer of trainfare's API"),
        (302, b"", "answers 302"),
        (503, b'{"error": {"code": "starting", "message": "the store is not open yet"}}', "the store is not open yet"),
        (500, b"oops", "no reason given"),
    ],
)  # fmt: skip
def test_other_answers_are_said(api: ScriptedApi, status: int, body: bytes, said: str) -> None:
    api.status, api.body = status, body
    assert said in fetched_fault(HttpSource(api.url, TOKEN))


def test_nobody_there_is_said_with_the_address() -> None:
    with pytest.raises(NobodyAnswersError, match=rf"nobody answers at http://{NOBODY}"):
        HttpSource(f"http://{NOBODY}").fetch()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8787", "ftp://host", "http://", "http://user:secret@host", "http://host/?a=b"]
)
def test_addresses_that_are_none_are_refused_and_show_no_password(url: str) -> None:
    with pytest.raises(WrongUseError) as fault:
        checked(url)
    assert "secret" not in str(fault.value)


def test_a_worker_bound_to_all_addresses_is_asked_at_this_machine() -> None:
    assert configured(WebSettings(bind="0.0.0.0", port=99, token=TOKEN)) == "http://127.0.0.1:99"  # type: ignore[arg-type]  # pydantic makes it secret
    assert configured(WebSettings(bind="::1", port=99)) == "http://[::1]:99"


def test_an_address_left_behind_by_another_process_is_not_believed(tmp_path: Path) -> None:
    assert announced(tmp_path) is None
    announce(tmp_path, Endpoint("http://127.0.0.1:1", os.getpid()))
    write_private(tmp_path / LOCK_NAME, b"%d\n" % (os.getpid() + 1))
    assert announced(tmp_path) is None
    write_private(tmp_path / LOCK_NAME, b"%d\n" % os.getpid())
    assert announced(tmp_path) == "http://127.0.0.1:1"


def test_an_address_that_somebody_else_could_write_gets_no_token(tmp_path: Path) -> None:
    announce(tmp_path, Endpoint("http://127.0.0.1:1", os.getpid()))
    write_private(tmp_path / LOCK_NAME, b"%d\n" % os.getpid())
    (tmp_path / "api.json").chmod(0o666)
    with pytest.raises(SourceError, match="may be written by other users"):
        announced(tmp_path)


def fill(data_dir: Path) -> None:
    money = {
        "usd_per_hour_now": Decimal(40),
        "usd_per_hour_1h": Decimal(20),
        "expected_usd_per_hour": Decimal(5),
    }
    alert = {"alert_id": "1", "rule": "burn_fast", "severity": "page", "status": "firing", "started": MINUTE}
    with embedded(data_dir) as store:
        store.insert(BURN_RATES, rows(BURN_RATES, {"time": MINUTE, **money}), "b")
        store.insert(JOBS, rows(JOBS, {"state": "running", "owner": "ann", "gpu_count": Decimal(8)}), "j")
        store.insert(
            JOB_MINUTES, rows(JOB_MINUTES, {"minute": MINUTE, "quantity": 1, "cost_usd": Decimal(7)}), "m"
        )
        store.insert(ALERTS, rows(ALERTS, {**alert, "subject_kind": "job", "subject_name": "j"}), "a")


def settings_for(data_dir: Path) -> Settings:
    return Settings(clickhouse=ClickHouseSettings(data_dir=data_dir))


def check(snapshot: MeterView) -> None:
    (job,) = snapshot.jobs
    assert (job.job_id, job.owner, job.state, job.gpu_count) == ("j", "ann", "running", Decimal(8))
    assert (job.usd_per_hour_now, job.ratio, job.cost_usd) == (Decimal(40), 8.0, Decimal(7))
    assert [alert.rule for alert in job.alerts] == [alert.rule for alert in snapshot.alerts] == ["burn_fast"]
    assert (snapshot.burn.usd_per_hour_1h, snapshot.burn.jobs_live, snapshot.burn.alerts_firing) == (
        Decimal(20),
        1,
        1,
    )


def test_the_store_gives_what_the_api_gives_and_is_left_free_between_looks(tmp_path: Path) -> None:
    fill(tmp_path)
    clock = ManualClock()
    source = StoreSource(settings_for(tmp_path), clock)
    first = source.fetch()
    check(first)
    assert "no worker answers" in first.origin
    with embedded(tmp_path) as store:  # a worker could start now
        store.insert(JOBS, rows(JOBS, {"job_id": "k"}), "k")
    assert source.fetch() is first
    clock.advance(DIRECTORY_EVERY_MS)
    assert len(source.fetch().jobs) == 2


def test_a_worker_that_comes_is_asked_and_one_that_goes_is_not(tmp_path: Path) -> None:
    fill(tmp_path)
    source = Found(settings_for(tmp_path), TOKEN)
    check(source.fetch())
    write_private(tmp_path / LOCK_NAME, b"%d\n" % os.getpid())
    with ScriptedApi(token=TOKEN).serving() as api:
        announce(tmp_path, Endpoint(api.url, os.getpid()))
        assert source.fetch().origin == api.url
    check(source.fetch())


def test_an_address_that_is_given_is_the_only_one(tmp_path: Path) -> None:
    assert isinstance(source_for(settings_for(tmp_path), "http://127.0.0.1:1"), HttpSource)


def test_a_pipe_gets_one_table(api: ScriptedApi) -> None:
    done = trainfare("top", "--url", api.url, env={"TRAINFARE_WEB_TOKEN": TOKEN})
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("2026-03-01 12:00:00 UTC: ")
    assert "2 alerts firing" in lines[0]
    assert lines[2].split()[:4] == ["job", "owner", "team", "state"]
    assert len(lines) == 43
    assert "Runaway burn" in next(line for line in lines if "-0003 " in line)


def test_programs_get_every_digit(api: ScriptedApi) -> None:
    env = {"TRAINFARE_WEB_TOKEN": TOKEN}
    found = json.loads(trainfare("top", "--url", api.url, "--format", "json", env=env).out)
    assert found["burn"]["alerts_firing"] == 2
    assert "212.000000000" in {job["usd_per_hour_now"] for job in found["jobs"]}
    table = list(csv.DictReader(io.StringIO(trainfare("top", "--url", api.url, "-f", "csv", env=env).out)))
    rates = [Decimal(row["usd_per_hour_now"]) for row in table]
    assert rates == sorted(rates, reverse=True)
    assert max(rate.as_tuple().exponent for rate in rates) == -9


def test_faults_are_one_line(tmp_path: Path) -> None:
    done = trainfare("top", "--url", f"http://{NOBODY}")
    assert (done.code, done.one_line()) == (
        1,
        f"trainfare: nobody answers at http://{NOBODY}; is the worker running?",
    )
    assert "no meter's data" in trainfare("top", "--data", tmp_path).one_line()
    assert trainfare("top", "--url", "host").code == 2


def test_old_rows_of_a_store_say_when_they_were(tmp_path: Path) -> None:
    fill(tmp_path)
    done = trainfare("top", "--once", "--data", tmp_path)
    assert done.code == 0
    assert f"{MINUTE:%Y-%m-%d %H:%M:%S} UTC" in done.out


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("", ""),
        ("100%_a&b", "&q=100%25_a%26b"),
        (" ".join("abcdefghijklmnop"), "&q=" + "%20".join("abcdefghijkl")),
        ("x" * 2_000, ""),
    ],
)
def test_the_typed_words_are_asked_for_as_far_as_a_meter_takes_them(
    api: ScriptedApi, typed: str, asked: str
) -> None:
    HttpSource(api.url, TOKEN).fetch(typed)
    assert api.asked[0][0] == f"/api/v1/jobs?limit=500&order=burn{asked}"
