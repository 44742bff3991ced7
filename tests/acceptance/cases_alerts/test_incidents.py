"""Stories of one cause, replayed with a real receiver: one message tells of it, to whoever operates what caused it."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare

CASES = Path(__file__).parents[4] / "shared/cases/alerts"
SECRET = "whsec_" + "c2VjcmV0" * 4
T0_MS = 1_780_300_800_000  # 2026-06-01 08:00:00 UTC
MINUTE_MS = 60_000


class Receiver:
    """Takes webhooks; `sent` has (path, rule, status, sentence) of each."""

    def __init__(self) -> None:
        sent: list[tuple[str, str, str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                data = message["data"]
                sent.append((self.path, data["rule"], data["status"], data["summary"]))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self.sent = sent
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def owner(self, name: str) -> dict[str, Any]:
        return {"kind": "owner", "name": name, "webhook": f"http://{self.host}/{name}"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def lines(*said: tuple[float, str, dict[str, Any]]) -> str:
    found = []
    for number, (minute, topic, event) in enumerate(sorted(said, key=lambda each: each[0])):
        about = {"source": "t", "id": f"t{number}", "time_ms": T0_MS + round(minute * MINUTE_MS)}
        found.append(json.dumps({"topic": topic, "value": {**about, **event}}) + "\n")
    return "".join(found)


def replay(directory: Path, log: str, receiver: Receiver, default: str = "") -> None:
    """Replay a log and deliver its messages; `default`: the path of whoever gets what has no receiver."""
    (directory / "log.jsonl").write_text(log)
    env = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET, "TRAINFARE_ALERTS_ALLOW_HOSTS": receiver.host}
    if default:
        env["TRAINFARE_ALERTS_DEFAULT_WEBHOOK"] = f"http://{receiver.host}/{default}"
    done = trainfare("replay", directory / "log.jsonl", "--data", directory / "data", "--deliver", env=env)
    assert done.code == 0, done.err[-3000:]


def five_jobs() -> list[tuple[float, str, dict[str, Any]]]:
    price = {"sku": "h100", "component": "gpu", "usd": "2", "per": "gpu_hour", "effective_ms": 0}
    said: list[tuple[float, str, dict[str, Any]]] = [(0, "prices", price)]
    for number in range(5):
        job = {"job_id": f"job-{number}", "type": "started", "gpu_count": 8, "owner": f"o{number}"}
        said.append((0, "jobs", job))
        said.append((180, "jobs", {"job_id": job["job_id"], "type": "completed"}))
    return said


def dearer(minute: float, usd: str) -> tuple[float, str, dict[str, Any]]:
    effective_ms = T0_MS + round(minute * MINUTE_MS)
    price = {"sku": "h100", "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": effective_ms}
    return minute, "prices", price


def test_a_wrong_price_is_told_once_to_the_operator_of_prices(tmp_path: Path, receiver: Receiver) -> None:
    people = [(0.0, "controls", receiver.owner(name)) for name in ("o0", "o1", "o2", "o3", "o4", "finops")]
    operator = (0.0, "controls", {"kind": "operator", "name": "prices", "owner": "finops"})
    replay(tmp_path, lines(*people, operator, *five_jobs(), dearer(60, "200")), receiver)
    told = [each[:3] for each in receiver.sent]
    assert told == [("/finops", "price_jump", "firing"), ("/finops", "price_jump", "resolved")]
    assert "100x: 5 jobs pay $7,920/h more" in receiver.sent[0][3]


def test_without_an_operator_the_owners_are_told_themselves(tmp_path: Path, receiver: Receiver) -> None:
    people = [(0.0, "controls", receiver.owner(f"o{number}")) for number in range(5)]
    replay(tmp_path, lines(*people, *five_jobs(), dearer(60, "20")), receiver)
    paths = {path for path, rule, status, _ in receiver.sent if rule == "burn_fast" and status == "firing"}
    assert paths == {f"/o{number}" for number in range(5)}


def story(name: str) -> str:
    packed = CASES / f"{name}.jsonl.gz"
    if not packed.exists():
        pytest.skip(f"no {packed}: the stories are not part of this repository")
    return gzip.decompress(packed.read_bytes()).decode()


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("price_x2_40jobs", "price_jump", "2.0x: 40 jobs pay $797/h more"),
        ("overhead_misprice", "price_jump", "100x: 60 jobs pay $594/h more"),
        (
            "exporter_dies",
            "incident",
            "56 jobs at $1,116/h on H100 nodes of cluster c1 fell silent at one time",
        ),
    ],
)
def test_a_story_of_one_cause_is_one_message(
    name: str, rule: str, words: str, tmp_path: Path, receiver: Receiver
) -> None:
    replay(tmp_path, story(name), receiver, "all")
    assert [(path, told) for path, told, status, _ in receiver.sent if status == "firing"] == [("/all", rule)]
    assert words in receiver.sent[0][3]
