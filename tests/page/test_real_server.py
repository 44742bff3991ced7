"""The page over the worker's own server and a store: what it asks for is what it gets."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.page.conftest import Open
from tests.web import live, log
from tests.web.serving import serving


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small replay with an alert, served in a thread of its own."""
    root = tmp_path_factory.mktemp("page")
    done = trainfare("replay", log.write(root / "log.jsonl"), "--data", root / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    store = _open(root / "meter")
    urls: list[str] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(store) as client:
            urls.append(client.server.url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(20)
        yield urls[0]
    finally:
        over.set()
        thread.join(20)
        store.close()
        shutil.rmtree(root)


def _open(data: Path) -> ClickHouseStore:
    store = ClickHouseStore(Embedded(data_dir=data))
    live.only_ours(store)
    return store


def test_the_board_and_a_job_of_a_real_store(url: str, opened: Open) -> None:
    page = opened(url).page
    expect(page.locator("#link")).to_have_attribute("data-state", "live", timeout=20_000)
    expect(page.locator("#clock")).to_contain_text("meter clock 20")
    expect(page.locator("#hero .amount")).to_have_text("$12.50")
    expect(page.locator("#hero .amount")).to_have_attribute("title", "$12.500000001")
    alert = page.locator(".alert", has_text="Runaway burn").first
    expect(alert).to_contain_text("delivered to bob")
    row = page.locator("tr", has=page.locator(".job-link[title='b']"))
    expect(row.locator(".pill")).to_contain_text("2.5")
    row.locator(".job-link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_have_text("b")
    expect(page.locator(".explain tbody tr").first).to_be_visible()
    expect(page.locator(".components li").first).to_contain_text("$")
    expect(page.locator(".phases .phase").first).to_be_visible()
    expect(page.locator(".evidence .alert").first).to_contain_text("Runaway burn")
    total = page.locator(".total .money").get_attribute("title")
    booked = page.locator(".facts .tile", has_text="Cost so far").locator(".figure").get_attribute("title")
    assert total == booked
    page.keyboard.press("Escape")
    expect(row.locator(".job-link")).to_be_focused()
