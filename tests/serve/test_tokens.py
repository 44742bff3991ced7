"""Issued tokens on a running `trainfare serve`: made by the command, in force at once, bound, rotated and revoked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import trainfare as sdk

from schemas.reserved import CANARY_JOB_PREFIX
from tests.cli.command import trainfare
from tests.serve.running import Running
from tests.web.otlp.test_otlp import attribute, span

_PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def vision(running: Running) -> str:
    """A token of the jobs of one team."""
    return running.issue("vision-jobs", "--scope", "ingest", "--team", "vision", "--source", "sdk")


def started(**changes: Any) -> dict[str, Any]:
    return {
        "topic": "jobs",
        "value": {
            "source": "sdk", "id": f"{time.monotonic_ns()}", "time_ms": time.time_ns() // 1_000_000, "type": "started",
            "job_id": "v1", "attempt": 1, "team": "vision", "gpu_count": 1, "gpu_type": "H100", **changes,
        },
    }  # fmt: skip


def refused(running: Running, token: str, *events: dict[str, Any]) -> list[tuple[str, str]]:
    status, found = running.ask("POST", "/api/v1/events", token, list(events))
    assert status == 202, found
    assert found["accepted"] == len(events) - len(found["refused"])
    return [(each["reason"], each["field"]) for each in found["refused"]]


# -- the life of a token --------------------------------------------------------------------------------------


def test_a_token_is_shown_once_listed_without_its_hash_rotated_and_revoked(running: Running) -> None:
    first = running.issue("life", "--scope", "ingest", "--source", "slurm", "--comment", "collector")
    assert first not in (running.data / "token").read_text()
    listed = running.until(200, "GET", "/api/v1/tokens", (running.data / "token").read_text().strip())
    (shown,) = [each for each in listed["tokens"] if each["name"] == "life"]
    assert (shown["scopes"], shown["sources"], shown["revoked"], shown["comment"]) == (["ingest"], ["slurm"], False, "collector")  # fmt: skip
    assert shown["last_used_from"] == "127.0.0.1"
    assert "hash" not in json.dumps(shown)
    again = trainfare("tokens", "create", "life", "--scope", "ingest", "--data", running.data)
    assert "there is a token" in again.one_line()
    time.sleep(1.1)  # more than one record a second is refused
    done = trainfare("tokens", "rotate", "life", "--keep", "1h", "--data", running.data)
    assert done.code == 0, done.err
    second = done.out.strip()
    found = running.until(200, "GET", "/api/v1/whoami", second)
    assert (found["token"], found["sources"]) == ("token/life", ["slurm"])
    assert running.ask("GET", "/api/v1/whoami", first)[0] == 200, "the former one goes on for an hour"
    time.sleep(1.1)  # as above
    assert trainfare("tokens", "revoke", "life", "--data", running.data).code == 0
    for token in (second, first):
        running.until(401, "GET", "/api/v1/whoami", token)
    text = trainfare("tokens", "list", "--data", running.data).out
    assert "revoked" in next(line for line in text.splitlines() if line.startswith("life"))


def test_whoami_says_whose_it_is(running: Running, vision: str) -> None:
    env = {"TRAINFARE_WEB_TOKEN": vision}
    done = trainfare("whoami", "--url", f"http://127.0.0.1:{running.port}", env=env)
    assert done.code == 0, done.err
    assert "token/vision-jobs (issued token)" in done.out
    assert "teams vision; sources sdk" in done.out
    assert "nobody's in particular" in trainfare("whoami", "--data", running.data).out


def test_no_token_no_figure_once_one_is_issued(running: Running, vision: str) -> None:
    assert vision
    assert running.ask("GET", "/api/v1/jobs", "")[0] == 401


# -- what an ingest token may not -----------------------------------------------------------------------------


def test_events_beyond_the_token_are_refused_each_with_its_reason(running: Running, vision: str) -> None:
    found = refused(
        running,
        vision,
        started(),
        started(team="speech"),
        started(source="slurm"),
        started(job_id=f"{CANARY_JOB_PREFIX}1"),
        started(job_id="v2", team=None),
        {**started(), "topic": "nodes", "value": {"source": "sdk", "id": "n", "time_ms": time.time_ns() // 1_000_000, "node": "n1", "type": "ready", "gpu_count": 8}},
        started(id="hb", type="heartbeat", team=None),
    )  # fmt: skip
    assert found == [
        ("beyond_token", "team"),
        ("beyond_token", "source"),
        ("reserved_name", "job_id"),
        ("beyond_token", "team"),
        ("beyond_token", "job_id"),
    ]


def test_a_job_of_another_team_is_not_its_to_report_though_it_says_its_own(
    running: Running, vision: str
) -> None:
    speech = running.issue("speech-jobs", "--scope", "ingest", "--team", "speech", "--source", "sdk")
    assert refused(running, speech, started(job_id="s1", team="speech")) == []
    # Taken a moment ago, and perhaps in no store yet.
    steals = [started(job_id="s1"), started(job_id="s1", type="completed", team=None)]
    assert refused(running, vision, *steals) == [("beyond_token", "job_id")] * 2
    admin = (running.data / "token").read_text().strip()
    sql = {"sql": "SELECT team FROM jobs WHERE job_id = 's1'"}
    deadline_s = time.monotonic() + _PATIENCE_S
    while running.ask("POST", "/api/v1/query", admin, sql)[1].get("rows") != [["speech"]]:
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    assert refused(running, vision, *steals) == [("beyond_token", "job_id")] * 2
    assert refused(running, speech, started(job_id="s1", type="heartbeat", team=None)) == []


def test_over_opentelemetry(running: Running, vision: str) -> None:
    def body(team: str) -> dict[str, Any]:
        spans = [span({"trainfare.job.id": f"o-{team}", "trainfare.job.team": team})]
        resource = {"attributes": [attribute("a", "b")]}
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}

    otel = running.issue("vision-otel", "--scope", "ingest", "--team", "vision", "--source", "otlp")
    assert running.ask("POST", "/v1/traces", otel, body("vision")) == (200, {})
    status, found = running.ask("POST", "/v1/traces", otel, body("speech"))
    assert status == 200
    assert found["partialSuccess"]["rejectedSpans"] == "1"
    assert "this token allows" in found["partialSuccess"]["errorMessage"]
    assert "source" in running.ask("POST", "/v1/traces", vision, body("vision"))[1]["partialSuccess"]["errorMessage"]  # fmt: skip


def test_by_the_sdk(running: Running, vision: str) -> None:
    url = f"http://127.0.0.1:{running.port}"
    for team, is_refused in (("vision", False), ("speech", True)):
        with sdk.run(job_id=f"sdk-{team}", owner="ada", team=team, gpus=1, url=url, token=vision) as run:
            pass
        assert (run.refused > 0) == is_refused


# -- controls -------------------------------------------------------------------------------------------------


def silence(**match: str) -> dict[str, Any]:
    return {"kind": "silence", "until_ms": time.time_ns() // 1_000_000 + 60_000, **match}


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (lambda: silence(team="vision"), 202),
        (lambda: silence(team="speech"), 403),
        (lambda: silence(rule="burn_fast"), 403),
        (lambda: {**silence(team="vision"), "match": {"team": "speech"}}, 400),
        (lambda: {"kind": "budget", "name": "b", "team": "vision", "usd": "1", "per": "month"}, 403),
    ],
)
def test_a_token_that_acts_for_a_team_acts_for_no_other(
    running: Running, record: Callable[[], dict[str, Any]], status: int, lead: str
) -> None:
    time.sleep(1.1)  # more than one record a second is refused
    assert running.ask("POST", "/api/v1/controls", lead, record())[0] == status


@pytest.fixture(scope="module")
def lead(running: Running) -> str:
    return running.issue("vision-lead", "--scope", "act", "--team", "vision")


def test_a_bound_token_gets_nothing_that_is_for_all(running: Running) -> None:
    token = running.issue("vision-limit", "--scope", "limit", "--team", "vision")
    for path, body in (("/api/v1/bills", {"upload": "x"}), ("/api/v1/closings", {"month": "2026-10"}), ("/api/v1/receivers/test", {"owner": "ada"})):  # fmt: skip
        status, found = running.ask("POST", path, token, body)
        assert (status, found["error"]["code"]) == (403, "beyond_token"), found


def test_a_collector_says_what_its_source_has_read_and_nothing_else(running: Running, vision: str) -> None:
    said = {"kind": "source", "name": "slurm", "polls": 1, "entries": {"metered": 1}, "standing": []}
    collector = running.issue("collector", "--scope", "ingest", "--source", "slurm")
    status, found = running.ask("POST", "/api/v1/sources", collector, said)
    assert (status, found["name"]) == (202, "slurm (token/collector)")
    for token, body in (
        (collector, {**said, "name": "ray"}),
        (collector, silence(team="vision")),
        (vision, said),
    ):
        time.sleep(1.1)  # more than one record a second is refused
        assert running.ask("POST", "/api/v1/sources", token, body)[0] == 403


def test_who_changed_what_is_in_the_audit_trail_and_sealed(running: Running, lead: str) -> None:
    time.sleep(1.1)  # more than one record a second is refused
    asked = {**silence(team="vision", rule="burn_drift"), "comment": "benchmark"}
    status, written = running.ask("POST", "/api/v1/controls", lead, asked)
    assert status == 202
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        done = trainfare("audit", "changes", "--data", running.data, "--format", "json")
        assert done.code == 0, done.err
        found = [each for each in json.loads(done.out) if each["name"] == written["name"]]
        sql = {"sql": "SELECT max(change_seals.offset) >= max(changes.offset) FROM changes, change_seals"}
        admin = (running.data / "token").read_text().strip()
        if found and running.ask("POST", "/api/v1/query", admin, sql)[1]["rows"][0][0]:
            break
        assert time.monotonic() < deadline_s
        time.sleep(1)
    (row,) = found
    assert (row["by"], row["proof"], row["from"]) == ("token/vision-lead", "issued token", "127.0.0.1")
    assert (row["before"], row["why"]) == ("-", "benchmark")
    assert json.loads(row["after"])["rule"] == "burn_drift"
    issued = [each for each in json.loads(done.out) if each["kind"] == "token"]
    assert issued
    assert all('"hash":"***"' in each["after"] for each in issued)
    audit = trainfare("audit", "--data", running.data)
    assert "changes are as they were sealed" in audit.out, audit.out
