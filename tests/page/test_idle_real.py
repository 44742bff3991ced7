"""The page Idle over the worker's own server and a store with nodes: its figures are those of the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.cli.command import trainfare
from tests.page.conftest import Open
from tests.page.real import serving_data
from tests.web import idle_log


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The store, and what the commands say of it."""
    root = tmp_path_factory.mktemp("idle")
    data = root / "meter"
    done = trainfare("replay", idle_log.write(root / "events.jsonl"), "--data", data)
    assert done.code == 0, done.err
    asked = {"idle": ("idle", "--by", "node"), "findings": ("idle", "--findings"), "m5": ("costs", "--metric", "m5"), "m3": ("costs", "--metric", "m3")}  # fmt: skip
    answers = {
        name: json.loads(trainfare(*words, "--data", data, "--format", "json").out)
        for name, words in asked.items()
    }
    return {"data": data, **answers}


@pytest.fixture(scope="module")
def url(said: dict[str, Any]) -> Iterator[str]:
    now_ms = idle_log.T0_MS + idle_log.END_HOUR * idle_log.HOUR_MS
    with serving_data(Path(said["data"]), wall_ms=now_ms) as found:
        yield found


def shown(usd: object) -> str:
    """Every digit of dollars, as the page's tooltip has them."""
    fraction = f"{Decimal(str(usd)):.9f}".split(".")[1].rstrip("0").ljust(2, "0")
    return f"${int(Decimal(str(usd))):,}.{fraction}"


def test_the_figures_are_those_of_the_commands_to_the_nano_dollar(
    url: str, opened: Open, said: dict[str, Any]
) -> None:
    page = opened(f"{url}/#/idle?range=all&by=node").page
    table = page.get_by_role("table", name="What nodes cost")
    expect(table.get_by_role("row")).to_have_count(4, timeout=60_000)
    money = ("idle_cost_usd", "unattributed_cost_usd", "node_cost_usd", "job_cost_usd", "overcommitted_cost_usd")  # fmt: skip
    for row, wanted in zip(table.locator("tbody tr").all(), said["idle"], strict=True):
        assert row.locator("td").first.text_content() == wanted["node"]
        titles = [each.get_attribute("title") for each in row.locator(".money").all()]
        assert titles == [shown(wanted[name]) for name in money]
    tiles = [each.get_attribute("title") for each in page.locator(".idle-tiles .money").all()]
    idle = sum(Decimal(each["idle_cost_usd"]) for each in said["idle"])
    forgotten = sum(Decimal(each["cost_usd"]) for each in said["findings"] if each["finding"] == "forgotten_node")  # fmt: skip
    (m3,), (m5,) = said["m3"], said["m5"]
    assert shown(m3["idle_cost_usd"]) == shown(idle)
    assert tiles[0] == shown(idle)
    assert tiles[1:] == [shown(forgotten), shown(m3["unattributed_cost_usd"]), shown(m5["lost_cost_usd"])]
    lost = page.get_by_role("table", name="Jobs that lost work")
    expect(lost.locator(".money").first).to_have_attribute("title", shown(m5["lost_cost_usd"]))
    expect(lost).to_contain_text("node failure")
    expect(lost).to_contain_text("bob, blue")
