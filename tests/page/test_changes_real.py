"""The page Changes over a running worker: what is on record and by whom, a second person who confirms, and the same as a file."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from schemas.validate_tokens import hash_of
from tests.page.conftest import Open
from tests.page.test_layout import CONTRAST
from tests.serve.conftest import running
from tests.serve.running import Running

__all__ = ["running"]

SILENCE: dict[str, Any] = {
    "kind": "silence",
    "rule": "burn_fast",
    "until_ms": (int(time.time()) + 7_200) * 1_000,
    "comment": "=cmd|' /C calc'!A1",
}


def test_who_changed_what_is_shown_confirmed_and_saved(
    running: Running, opened: Open, tmp_path: Path
) -> None:
    ada, bob = running.issue("ada", "--scope", "act"), running.issue("bob", "--scope", "admin")
    reader = running.issue("reader", "--scope", "read,query,limit")
    status, asked = running.ask("POST", "/api/v1/controls", ada, SILENCE)
    assert (status, asked["kind"]) == (202, "request")
    waits = f"/api/v1/changes?kind=request&name={asked['name']}"
    while not running.until(200, "GET", waits, bob)["changes"]:
        time.sleep(0.1)
    for token in (ada, reader):
        assert running.ask("GET", "/api/v1/changes", token)[0] == 403
    page = opened(f"http://127.0.0.1:{running.port}/#token={bob}").page
    page.wait_for_selector("#link-text")
    page.goto(f"http://127.0.0.1:{running.port}/#/changes")
    expect(page.locator(".changes [role=status]")).to_contain_text("Give a token with the scope admin")
    page.get_by_role("button", name="Give a token").click()
    page.get_by_label("Token with the scope admin").fill(bob)
    page.get_by_role("button", name="Show", exact=True).click()
    rows = page.get_by_role("table", name="Changes, the newest first").locator("tbody tr")
    expect(rows.first).to_contain_text("token/ada")
    expect(rows.first).to_contain_text(SILENCE["comment"])
    expect(rows.nth(1)).to_contain_text("token")
    waiting = page.get_by_role("table", name="Requests that wait")
    expect(waiting.locator("tbody tr")).to_have_count(1)
    page.screenshot(path=tmp_path / "changes.png", full_page=True)
    assert page.evaluate(CONTRAST) == []
    waiting.get_by_role("button", name="Confirm").click()
    expect(page.locator("#toasts")).to_contain_text("token/ada, confirmed by token/bob")
    while not running.until(200, "GET", "/api/v1/changes?kind=silence", bob)["changes"]:
        time.sleep(0.1)
    page.get_by_role("button", name="Ask again").click()
    expect(rows.filter(has_text="token/ada, confirmed by token/bob").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download CSV").click()
    path = tmp_path / "changes.csv"
    saved.value.save_as(path)
    lines = list(csv.DictReader(path.read_text().splitlines()))
    assert {"token", "request", "silence"} <= {line["kind"] for line in lines}
    assert not [line for line in lines if line["comment"].startswith("=")], "a spreadsheet would run it"
    assert all(len(line["time"]) == 24 for line in lines)


def test_pages_and_filters_of_changes(running: Running) -> None:
    bob = running.issue("carol", "--scope", "admin")
    while not running.until(200, "GET", "/api/v1/changes?kind=token&name=carol", bob)["changes"]:
        time.sleep(0.1)
    found, before, seen = running.ask("GET", "/api/v1/changes?limit=2", bob)[1], None, []
    while True:
        seen += found["changes"]
        before = found["before"]
        if before is None:
            break
        found = running.ask("GET", f"/api/v1/changes?limit=2&before={before}", bob)[1]
    offsets = [each["offset"] for each in seen]
    assert offsets == sorted(set(offsets), reverse=True)
    assert len(offsets) >= 3
    by_kind = running.ask("GET", "/api/v1/changes?kind=token", bob)[1]["changes"]
    assert [each for each in seen if each["kind"] == "token"] == by_kind
    assert running.ask("GET", "/api/v1/changes?kind=none", bob)[1] == {"changes": [], "before": None}
    for wrong in ("limit=0", "limit=10001", "before=x", "sql=1", "kind=a&kind=b"):
        assert running.ask("GET", f"/api/v1/changes?{wrong}", bob)[0] == 400
    assert hash_of(bob) not in str(by_kind), "no row tells the hash of a token"
