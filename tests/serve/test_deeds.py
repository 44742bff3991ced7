"""On a running worker: prices that were loaded and requests that were refused are in the audit trail; a flood of these is a few rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cli.command import trainfare
from tests.serve.running import Running
from tests.serve.test_gameday import kafka_of
from tests.serve.test_tokens import silence

_PATIENCE_S = 90.0


def deeds(running: Running, token: str, act: str) -> list[dict[str, Any]]:
    found = running.until(200, "GET", "/api/v1/changes?kind=deed&limit=1000", token)["changes"]
    rows = [{**each, "after": json.loads(each["after"])} for each in found]
    return [each for each in rows if each["after"]["act"] == act]


def test_refused_requests_are_on_record_and_a_flood_is_a_few_rows(running: Running) -> None:
    admin = running.issue("root", "--scope", "admin")
    reader = running.issue("nosy", "--scope", "read")
    lead = running.issue("lead", "--scope", "act", "--team", "vision")
    assert {
        running.ask("POST", "/api/v1/controls", reader, silence(rule="stalled"))[0] for _ in range(100)
    } == {403}
    assert running.ask("POST", "/api/v1/controls", lead, silence(team="speech"))[0] == 403
    assert running.ask("GET", "/api/v1/tokens", reader)[0] == 403  # reading changes nothing
    deadline_s = time.monotonic() + _PATIENCE_S
    rows: list[dict[str, Any]] = []
    while sum(each["after"]["count"] for each in rows) < 101:
        assert time.monotonic() < deadline_s, rows
        time.sleep(1)
        rows = deeds(running, admin, "refused")
    by_token = {each["by"]: each for each in rows}
    assert by_token.keys() == {"token/nosy", "token/lead"}
    assert by_token["token/nosy"]["after"]["what"] == "POST /api/v1/controls: forbidden"
    assert by_token["token/lead"]["after"]["what"] == "POST /api/v1/controls: beyond_token"
    assert {each["proof"] for each in rows} == {"issued token"}
    assert {each["address"] for each in rows} == {"127.0.0.1"}
    assert len(rows) <= 6
    assert sum(each["after"]["count"] for each in rows) == 101


def test_prices_that_were_loaded_are_on_record(running: Running, tmp_path: Path) -> None:
    admin = running.issue("root2", "--scope", "admin")
    path = tmp_path / "list.csv"
    path.write_text(
        "sku,component,usd,per,from,gpu_type\nh100,gpu,2.5,gpu_hour,,H100\nh200,gpu,3.5,gpu_hour,,H200\n"
    )
    done = trainfare("prices", "load", path, env=kafka_of(running.data))
    assert done.code == 0, done.err
    deadline_s = time.monotonic() + _PATIENCE_S
    while not (rows := deeds(running, admin, "prices")):
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
    (row,) = rows
    assert row["after"]["what"] == "list.csv as csv"
    assert row["after"]["count"] == 2
    assert " at " in row["by"]
    assert row["proof"] == ""  # over Kafka nothing proves it
