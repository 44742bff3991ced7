"""A game day on a running `trainfare serve`: a real receiver gets the message, what did not happen is said, and nothing stays behind."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from streams.cli.gameday import GameRun
from streams.cli.reading import reader_at
from streams.clock import SystemClock
from streams.config.load import load_settings
from streams.demo.gameday import GAMES, game
from streams.errors import TrainfareError
from streams.transport.producer import LogProducer
from tests.cli.command import Done, trainfare
from tests.kafka.broker import _free_ports
from tests.serve.run import Serves, client_of, token_of

SECRET = "whsec_" + "c2VjcmV0LW9mLTMyLWJ5dGVzLWZvci10aGUtdGVzdHM="


class Inbox:
    """What a receiver got; `port` is where it listens."""

    def __init__(self) -> None:
        inbox = self
        self.bodies: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                inbox.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """It is not said."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@contextmanager
def receiving() -> Iterator[Inbox]:
    inbox = Inbox()
    thread = threading.Thread(target=inbox.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield inbox
    finally:
        inbox.server.shutdown()
        inbox.server.server_close()


def kafka_of(data: Path) -> dict[str, str]:
    """What `client.env` sets, without the shell."""
    lines = (data / "log" / "client.env").read_text().splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines if "=" in line)
    return {name: value.strip("'") for name, _, value in pairs}


class HurriedClock(SystemClock):
    """Goes on by 20 s whenever somebody rests, so that nobody waits for what does not come."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return super().now_ms() + self._ahead_ms

    def rest(self, ms: int) -> None:
        """Let the meter work for a moment."""
        time.sleep(ms / 1000)
        self._ahead_ms += 20_000


def play_at_once(port: int, data: Path) -> None:
    clock = HurriedClock()
    settings = load_settings({"TRAINFARE_WEB_TOKEN": token_of(data)}, overrides={})
    kafka = client_of(data)
    with reader_at(f"http://127.0.0.1:{port}", settings) as store, LogProducer(kafka) as producer:
        played = game("retry-loop", clock.now_ms(), 0, "ada")
        GameRun(played, GAMES["retry-loop"], store, producer, clock, clock.rest).play(None)


@pytest.mark.timeout(1_800)
def test_a_story_is_played_sent_and_taken_back(tmp_path: Path) -> None:
    (port,) = _free_ports(1)
    data = tmp_path / "data"
    with receiving() as sent, receiving() as everybody:
        env = {
            "TRAINFARE_WEB_PORT": str(port),
            "TRAINFARE_KAFKA_PARTITIONS": "1",
            "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
            "TRAINFARE_ALERTS_ALLOW_HOSTS": f"127.0.0.1:{sent.port},127.0.0.1:{everybody.port}",
            "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": f"http://127.0.0.1:{everybody.port}/all",
        }
        with Serves(tmp_path, env) as serves:
            life = serves.start()
            life.wait_ready()
            client = kafka_of(data)

            def play(name: str) -> Done:
                words = ("gameday", name, "--minutes", 0, "--yes", "--data", data)
                # Idle GPUs are looked at once in five minutes, and their ticket waits six for others.
                return trainfare(
                    *words, "--to", f"http://127.0.0.1:{sent.port}/me", env=client, timeout_s=1000
                )

            # At once: two of them wait for the minute at which their rule is judged.
            with ThreadPoolExecutor(len(GAMES)) as threads:
                played = dict(zip(GAMES, threads.map(play, GAMES), strict=True))
            jobs = 0
            for name, done in played.items():
                print(name, done.out, sep="\n")  # noqa: T201 - what a user sees
                story = GAMES[name]
                assert done.code == 0, done.out + done.err + life.text()[-3000:]
                (opened,) = (
                    line
                    for line in done.out.splitlines()
                    if line.startswith("al_") and story.severity in line
                )
                assert f" {story.rule} " in opened
                assert f"http://127.0.0.1:{sent.port}" in done.out
                assert "delivered" in done.out
                found = re.search(r"Taken back: its (\d+) jobs cost \$0\.00", done.out)
                assert found is not None, done.out
                jobs += int(found[1])
            # Whoever was named got the message, and nobody else.
            assert {body["type"] for body in sent.bodies} <= {"alert.firing", "alert.resolved"}
            assert everybody.bodies == []
            asked = "SELECT job_id, state, cost_usd FROM job_costs"
            rows = json.loads(trainfare("sql", asked, "--data", data, "--format", "json").out)
            assert len(rows) == jobs
            for row in rows:
                assert row["job_id"].startswith("gameday-")
                assert row["state"] in ("cancelled", "failed", "completed")
                assert float(row["cost_usd"]) == 0
            rules = {body["data"]["rule"] for body in sent.bodies}
            assert rules == {story.rule for story in GAMES.values()}
            off = {
                "id": "off",
                "source": "t",
                "time_ms": SystemClock().now_ms(),
                "kind": "rule",
                "name": "off",
            }
            line = {"topic": "controls", "value": {**off, "rule": "retry_loop", "enabled": False}}
            (tmp_path / "off.jsonl").write_text(json.dumps(line) + "\n")
            assert trainfare("publish", tmp_path / "off.jsonl", env=client).code == 0
            with pytest.raises(TrainfareError, match="retry_loop opened no alert: it is switched off"):
                play_at_once(port, data)
            assert life.terminate() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "expected `list` or one of retry-loop"),
        (("retry-loop",), "--to: name who gets the messages"),
        (("retry-loop", "--to", "ada"), "nothing was sent; say --yes"),
        (("\x1b[31m",), "expected `list` or one of"),
    ],
)
def test_nobody_is_paged_who_was_not_named(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = trainfare("gameday", *words, "--data", tmp_path)
    assert done.code in (1, 2)
    assert said in done.one_line()


def test_a_dry_run_says_what_would_be_done() -> None:
    done = trainfare("gameday", "spot-fallback", "--dry-run", "--to", "ada")
    assert (done.code, done.err) == (0, "")
    assert "plays " in done.out
    assert "price_basis should open as a ticket; its messages go to ada" in done.out
    assert "Its alert is due at " in done.out
    rows = [line.split() for line in done.out.splitlines() if line.startswith(("jobs ", "prices "))]
    assert {row[0] for row in rows} == {"jobs", "prices"}
    assert done.out.endswith("nothing was sent\n")


def test_a_dry_run_prints_events_that_publish_takes() -> None:
    done = trainfare("gameday", "spot-fallback", "--dry-run", "--format", "json")
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert {line["topic"] for line in lines} == {"jobs", "prices"}
    runs = {line["value"]["source"] for line in lines}
    assert len(runs) == 1
    (run,) = runs
    for line in lines:
        value = line["value"]
        named = value.get("job_id") or value["sku"]
        assert named.startswith(f"{run}.")
        assert value["cloud"] == run
