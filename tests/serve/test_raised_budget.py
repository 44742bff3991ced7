"""A budget is raised through a running `trainfare serve`: by the record in force, which the worker has read from its log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.cli.command import trainfare
from tests.kafka.broker import _free_ports
from tests.serve.run import Serves

TOKEN = "may-write-and-nothing-else"
SET: dict[str, Any] = {"kind": "budget", "name": "month", "team": "vision", "usd": "100", "per": "month", "actions": ["notify"]}  # fmt: skip
RAISE: dict[str, Any] = {"kind": "budget", "name": "month", "replaces": {"usd": "100"}, "usd": "200"}
_PATIENCE_S = 60.0


def post(port: int, record: dict[str, Any]) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    asked = Request(f"http://127.0.0.1:{port}/api/v1/controls", json.dumps(record).encode(), headers)
    try:
        with urlopen(asked, timeout=20) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_budget_is_raised_by_the_record_in_force(tmp_path: Path) -> None:
    (port,) = _free_ports(1)
    env = {
        "TRAINFARE_WEB_PORT": str(port),
        "TRAINFARE_WEB_WRITE_TOKEN": TOKEN,
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    with Serves(tmp_path, env) as serves:
        life = serves.start()
        life.wait_ready()
        assert post(port, SET)[0] == 202
        # Once the worker has read the first record the second one is taken, and once it has read that a third is late.
        for wanted in (202, 409):
            deadline_s = time.monotonic() + _PATIENCE_S
            while (found := post(port, RAISE))[0] != wanted:
                assert time.monotonic() < deadline_s, found
                time.sleep(1.1)  # more than one record a second is refused
        assert 'in force is "200"' in found[1]["error"]["message"]
        # Receipts are asked for through the same process, by the token of its directory.
        for words, said in (
            (("ada",), "ada gets receipts of their jobs"),
            (("ada", "--off"), "ada no longer gets receipts"),
        ):
            done = trainfare("receipts", "ask", *words, "--data", tmp_path / "data")
            assert done.code == 0, done.err
            assert done.out.startswith(said)
            assert "written by" in done.out
            time.sleep(1.1)  # more than one record a second is refused
        assert life.terminate() == 0
