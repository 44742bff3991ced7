"""A copy of the data directory of a live run gives no address of a receiver and no secret of the settings, where there is a key."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.web import local_token
from tests.cli.command import Done, trainfare
from tests.kafka.broker import _free_ports
from tests.serve.run import Serves, logged
from tests.serve.running import Running
from tests.serve.test_gameday import SECRET, Inbox, kafka_of, receiving
from tests.store_process import StoreProcess

KEY: Final = "what-seals-addresses-in-this-test-alone"
OTHER_KEY: Final = "another-key-that-this-worker-has-not"
#: Parts of addresses, which are looked for everywhere.
ADDRESSES: Final = (
    "marker-webhook",
    "marker-slack",
    "marker-mail",
    "marker-team",
    "marker-budget",
    "marker-rotated",
)
#: Of settings, which have no place in a data directory with or without a key.
SECRETS: Final = {
    "TRAINFARE_AT_REST_KEY": KEY,
    "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
    "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": "https://hooks.example.com/marker-default",
    "TRAINFARE_ALERTS_ALERTMANAGER_TOKEN": "marker-alertmanager-token",
    "TRAINFARE_ACTIONS_WEBHOOK": "https://hooks.example.com/marker-actions",
    "TRAINFARE_WEB_ACT_LINK_KEY": "marker-key-of-signed-links-of-messages",
    "TRAINFARE_WEB_CLOSING_KEY": "marker-key-of-manifests-of-closed-months",
    "TRAINFARE_CI_GITHUB_SECRET": "marker-secret-of-webhooks-of-github",
}
_PATIENCE_S: Final = 60.0
#: A run that stored little would show little.
_TABLES_FILLED: Final = 8


class Ended(NamedTuple):
    """What a run left, and what it said."""

    data: Path
    log: str
    told: Done  # `trainfare alerts test ada`
    messages: int
    token: str  # of the directory


def record(kind: str, name: str, number: int, **fields: Any) -> str:
    value = {
        "id": str(number),
        "source": "platform",
        "time_ms": time.time_ns() // 1_000_000,
        "kind": kind,
        "name": name,
    }
    return json.dumps({"topic": "controls", "value": {**value, **fields}}) + "\n"


def live(folder: Path, *, with_key: bool) -> Ended:
    """Publish addresses to a running meter, have it send to one, act, and stop it."""
    (port,) = _free_ports(1)
    data = folder / "data"
    settings = {name: text for name, text in SECRETS.items() if with_key or name != "TRAINFARE_AT_REST_KEY"}
    key = {"TRAINFARE_AT_REST_KEY": KEY} if with_key else {}
    with receiving() as inbox:
        env = {
            "TRAINFARE_WEB_PORT": str(port),
            "TRAINFARE_KAFKA_PARTITIONS": "1",
            "TRAINFARE_ALERTS_ALLOW_HOSTS": f"127.0.0.1:{inbox.port}",
            **settings,
        }
        with Serves(folder, env) as serves:
            life = serves.start()
            life.wait_ready()
            published(folder, data, inbox, key)
            token = local_token.read(data, KEY) or ""
            told = told_by_test(port, token)
            running = Running(port, data)
            silence = {
                "kind": "silence",
                "team": "vision",
                "until_ms": time.time_ns() // 1_000_000 + 3_600_000,
            }
            assert running.ask("POST", "/api/v1/controls", token, silence)[0] == 202
            raised = {"kind": "budget", "name": "cap", "usd": "9"}
            running.until(202, "POST", "/api/v1/controls", token, raised)
            # A job of those whose addresses they are, and a snapshot of it when the meter stops.
            started = event("v1", owner="ada")
            status, taken = running.ask("POST", "/api/v1/events", token, [started])
            assert (status, taken["accepted"]) == (202, 1), taken
            running.until(200, "GET", "/api/v1/jobs/v1", token)
            assert life.terminate() == 0
        return Ended(data, life.text(), told, len(inbox.bodies), token)


def event(job_id: str, **fields: Any) -> dict[str, Any]:
    value = {
        "source": "sdk",
        "id": job_id,
        "time_ms": time.time_ns() // 1_000_000,
        "type": "started",
        "job_id": job_id,
        "attempt": 1,
        "team": "vision",
        "gpu_count": 1,
        "gpu_type": "H100",
    }
    return {"topic": "jobs", "value": {**value, **fields}}


def published(folder: Path, data: Path, inbox: Inbox, key: dict[str, str]) -> None:
    path = folder / "owners.jsonl"
    path.write_text(
        record("owner", "ada", 1, webhook=f"http://127.0.0.1:{inbox.port}/marker-webhook", escalate=["grace"])
        + record(
            "owner",
            "grace",
            2,
            slack="https://hooks.slack.com/services/T0/B0/marker-slack",
            email="marker-mail@example.com",
        )
        + record("team", "vision", 3, webhook="https://hooks.example.com/marker-team")
        + record(
            "budget",
            "cap",
            4,
            team="vision",
            usd="5",
            per="month",
            actions=["notify"],
            webhook="https://hooks.example.com/marker-budget",
        )
    )
    done = trainfare("publish", path, env={**kafka_of(data), **key})
    assert done.code == 0, done.err
    if key:  # of a key that was rotated away: neither opened nor shown
        path.write_text(record("owner", "eve", 5, webhook="https://hooks.example.com/marker-rotated"))
        done = trainfare("publish", path, env={**kafka_of(data), "TRAINFARE_AT_REST_KEY": OTHER_KEY})
        assert done.code == 0, done.err


def told_by_test(port: int, token: str) -> Done:
    """A test message to ada, once the worker has her record."""
    env = {"TRAINFARE_WEB_TOKEN": token}
    words = ("alerts", "test", "ada", "--url", f"http://127.0.0.1:{port}", "--format", "json")
    deadline_s = time.monotonic() + _PATIENCE_S
    while (done := trainfare(*words, env=env)).code != 0 or "127.0.0.1" not in done.out:
        assert time.monotonic() < deadline_s, done
        time.sleep(0.5)
    return done


def found_in(data: Path, markers: tuple[str, ...]) -> dict[str, set[str]]:
    """Where each marker is: in the bytes of a file, in a record of the log, which is compressed, or in a row of a table."""
    found: dict[str, set[str]] = {}

    def look(place: str, content: bytes) -> None:
        for marker in markers:
            if marker.encode() in content:
                found.setdefault(marker, set()).add(place)

    for path in sorted(data.rglob("*")):
        if path.is_file():
            look("a file", path.read_bytes())
    for lines in logged(data).values():
        for line in lines:
            look("the log", line.value if isinstance(line.value, bytes) else repr(line.value).encode())
    with StoreProcess(data, copied=False) as front:
        store, filled = ClickHouseStore(front.target()), 0
        for table in SCHEMAS:
            rows = store.select(table)
            filled += rows.num_rows > 0
            look(f"table {table}", repr(rows.to_pylist()).encode())
        assert filled >= _TABLES_FILLED
        store.close()
    return found


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return live(tmp_path_factory.mktemp("sealed"), with_key=True)


def test_with_a_key_no_address_is_in_the_data_directory(sealed: Ended) -> None:
    assert found_in(sealed.data, ADDRESSES) == {}
    assert not any(marker in sealed.log for marker in ADDRESSES)
    assert "at_rest.key is not set" not in sealed.log


def test_no_secret_of_the_settings_is_in_the_data_directory(sealed: Ended) -> None:
    assert found_in(sealed.data, tuple(SECRETS.values())) == {}
    assert not any(secret in sealed.log for secret in SECRETS.values())


def test_a_copy_of_the_directory_gives_no_token(sealed: Ended) -> None:
    assert found_in(sealed.data, (sealed.token,)) == {}
    assert (sealed.data / "token").read_text().startswith("sealed:")


def test_the_worker_sends_to_what_it_opens(sealed: Ended) -> None:
    assert sealed.messages == 2  # it fires, and is over
    assert [each["outcome"] for each in json.loads(sealed.told.out)] == ["delivered"]


def test_a_worker_without_a_key_says_so_and_these_tests_would_find_addresses(tmp_path: Path) -> None:
    ended = live(tmp_path, with_key=False)
    assert "addresses of receivers are kept in the log as they come: at_rest.key is not set" in ended.log
    assert ended.messages == 2
    assert found_in(ended.data, (ended.token,)) == {ended.token: {"a file"}}
    found = found_in(ended.data, ADDRESSES)
    assert set(found) == set(ADDRESSES) - {"marker-rotated"}
    assert set().union(*found.values()) <= {"a file", "the log"}
