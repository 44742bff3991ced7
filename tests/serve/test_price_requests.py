"""Prices over HTTP on a running worker: one that moves more than three times has no effect until a second identity confirms."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Done, trainfare
from tests.serve.running import Running
from tests.serve.test_second_person import waits

PATH = "/api/v1/prices"
_PATIENCE_S = 60.0


def price(usd: str, sku: str = "h100", **more: Any) -> dict[str, Any]:
    return {"sku": sku, "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": 1_700_000_000_000, "gpu_type": "H100", **more}  # fmt: skip


def stored(running: Running, token: str, sku: str = "h100") -> list[str]:
    body = {"sql": f"SELECT toString(usd) AS usd FROM prices WHERE sku = '{sku}' ORDER BY effective"}
    return [row[0] for row in running.until(200, "POST", "/api/v1/query", token, body)["rows"]]


def until_stored(running: Running, token: str, usd: list[str], sku: str = "h100") -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while [*map(float, stored(running, token, sku))] != [*map(float, usd)]:
        assert time.monotonic() < deadline_s
        time.sleep(0.5)


def test_a_price_that_moves_too_far_waits_for_another_person(running: Running) -> None:
    ada = running.issue("ada", "--scope", "limit,query")
    bob = running.issue("bob", "--scope", "limit,admin")
    lead = running.issue("lead", "--scope", "limit", "--team", "vision")
    status, found = running.ask("POST", PATH, ada, {"prices": [price("2.50")], "comment": "contract"})
    assert (status, found["kind"], found.get("second_person")) == (202, "deed", None), found
    until_stored(running, ada, ["2.5"])
    time.sleep(1.1)  # more than one request a second is refused
    assert running.ask("POST", PATH, ada, {"prices": [price("7.50")]})[1]["kind"] == "deed"  # three times
    until_stored(running, ada, ["7.5"])
    for jump in (
        price("25"),
        price("2"),
        price("0"),
        price("7.5", per="job_hour", component="labor"),
        price("100", effective_ms=0),
    ):
        time.sleep(1.1)
        status, asked = running.ask(
            "POST", PATH, ada, {"prices": [price("5", "other"), jump], "comment": "new"}
        )
        assert (status, asked.get("kind")) == (202, "request"), (jump, asked)
        assert "h100 moves more than 3 times" in asked["second_person"]
    waits(running, bob, asked["name"])
    time.sleep(1.1)
    status, long = running.ask("POST", PATH, ada, {"prices": [price("90")], "comment": "ä" * 600})
    assert (status, "at most 1024 bytes" in long["error"]["message"]) == (400, True), long
    time.sleep(1.1)
    many = [price("90"), *(price("5", f"sku-{number:02d}" + 200 * "x") for number in range(49))]
    long = running.ask("POST", PATH, ada, {"prices": many, "comment": "x" * 1_000})[1]
    waits(running, bob, long["name"])  # the largest is read by workers, too
    time.sleep(1.1)
    dear = price("90", "h100-vision", team="vision")  # paid by a closer match
    assert "h100-vision moves" in running.ask("POST", PATH, ada, {"prices": [dear]})[1]["second_person"]
    time.sleep(2)
    assert stored(running, ada) == stored(running, ada)[:1]
    assert stored(running, ada, "other") == []
    time.sleep(1.1)
    for token, refusal in ((ada, (403, "not_second")), (lead, (404, "no_such_request"))):
        status, refused = running.ask("POST", "/api/v1/approvals", token, {"id": asked["name"]})
        assert (status, refused["error"]["code"]) == refusal, refused
    time.sleep(1.1)
    status, done = running.ask("POST", "/api/v1/approvals", bob, {"id": asked["name"]})
    assert (status, done["by"], done["prices"]) == (202, "token/ada, confirmed by token/bob", 2), done
    until_stored(running, ada, ["100", "7.5"])
    until_stored(running, ada, ["5"], "other")
    rows: list[dict[str, Any]] = []
    while not rows:
        found = running.until(200, "GET", "/api/v1/changes?kind=deed", bob)["changes"]
        rows = [each for each in found if each["by"] == "token/ada, confirmed by token/bob"]
    assert rows[0]["comment"] == "new"
    assert '"what":"other, h100"' in rows[0]["after"]


def test_a_shared_token_skips_it_and_says_so(running: Running) -> None:
    admin = (running.data / "token").read_text().strip()
    time.sleep(1.1)
    running.ask("POST", PATH, admin, {"prices": [price("4", "solo")]})
    until_stored(running, admin, ["4"], "solo")
    time.sleep(1.1)
    status, found = running.ask("POST", PATH, admin, {"prices": [price("40", "solo")]})
    assert (status, "shared" in found["second_person"]) == (202, True), found


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "a list of 1 to 50"),
        ({"prices": []}, "a list of 1 to 50"),
        ({"prices": ["x"]}, "prices[0]: expected an object"),
        ({"prices": [price("1"), price("minus")]}, "prices[1]: field `usd`"),
        ({"prices": [{**price("1"), "time_ms": 1}]}, "prices[0].time_ms: the worker sets it"),
        ({"prices": [price("1")], "by": "me"}, "by: expected prices, comment and apart alone"),
        ({"prices": [price("1")], "comment": 3}, "comment: expected a text"),
        ({"prices": [price(str(n), f"s{n}") for n in range(51)]}, "a list of 1 to 50"),
    ],
)
def test_what_is_wrong_is_said(running: Running, body: dict[str, Any], word: str) -> None:
    admin = (running.data / "token").read_text().strip()
    time.sleep(1.1)
    status, found = running.ask("POST", PATH, admin, body)
    assert (status, word in found["error"]["message"]) == (400, True), found


def test_a_list_is_loaded_through_a_worker_and_what_jumps_waits_apart(
    running: Running, tmp_path: Path
) -> None:
    eve = running.issue("eve", "--scope", "limit,query")
    fay = running.issue("fay", "--scope", "limit")
    where = ("--url", f"http://127.0.0.1:{running.port}")
    file = tmp_path / "prices.csv"

    def load(rows: dict[str, str], *words: str, token: str = eve) -> Done:
        lines = [f"{sku},gpu,{usd},gpu_hour,1700000000000,{sku.upper()}" for sku, usd in rows.items()]
        file.write_text("\n".join(["sku,component,usd,per,effective_ms,gpu_type", *lines]) + "\n")
        return trainfare("prices", "load", file, *words, *where, env={"TRAINFARE_WEB_TOKEN": token})

    many = {f"g{number:03d}": "2" for number in range(260)}
    done = load(many, "--comment", "list of May")
    assert (done.code, "260 prices taken by" in done.out) == (0, True), done
    until_stored(running, eve, ["2"], "g259")
    done = load({**many, "g001": "7", "g002": "5"})
    assert "259 prices taken by" in done.out, done
    assert "1 price moves more than three times" in done.out
    until_stored(running, eve, ["5"], "g002")
    assert stored(running, eve, "g001") == ["2"]
    request_id = done.out.split("trainfare approve ")[1].split()[0]
    waits(running, fay, request_id)
    confirmed = trainfare("approve", request_id, *where, env={"TRAINFARE_WEB_TOKEN": fay})
    assert "by token/eve, confirmed by token/fay" in confirmed.out, confirmed
    until_stored(running, eve, ["7"], "g001")
    lead = running.issue("lead-2", "--scope", "limit", "--team", "vision")
    refused = load(many, token=lead)
    assert (refused.code, "0 of 260 prices are published" in refused.err) == (1, True), refused
    wrong = load({"g": "2"}, "--out", str(tmp_path / "out.jsonl"))
    assert (wrong.code, "--out and --url" in wrong.err) == (2, True), wrong


def test_small_steps_of_a_day_are_one(running: Running) -> None:
    """Each is within three times of the one before, or of another new SKU."""
    gil = running.issue("gil", "--scope", "limit,query")
    where = {"gpu_type": "A100"}
    for usd, kind in (("2", "deed"), ("5", "deed"), ("5", "deed"), ("7", "request"), ("5.5", "deed")):
        time.sleep(1.1)
        found = running.ask("POST", PATH, gil, {"prices": [price(usd, "steps", **where)]})[1]
        assert found["kind"] == kind, (usd, found)
        if kind == "deed":
            until_stored(running, gil, [usd], "steps")
    later = {**where, "effective_ms": time.time_ns() // 1_000_000}
    time.sleep(1.1)
    found = running.ask("POST", PATH, gil, {"prices": [price("7", "steps", **later)]})[1]
    assert found["kind"] == "request", found
