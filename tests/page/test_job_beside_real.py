"""A job's page over the worker's own server: beside similar jobs, elsewhere and its receipt, as the commands say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.notify.notices import CHEAPER, a_receipt, keep
from tests.page.conftest import Open
from tests.page.real import serving_data
from tests.page.test_idle_real import shown
from tests.page.test_layout import CONTRAST
from tests.web import estimate_log

HOSTILE = (*estimate_log.HOSTILE, "<img src=x onerror=alert(1)>")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The store, and what the commands say of one job."""
    root = tmp_path_factory.mktemp("beside")
    data = root / "meter"
    done = trainfare("replay", estimate_log.write(root / "events.jsonl"), "--data", data)
    assert done.code == 0, done.err
    store = ClickHouseStore(Embedded(data_dir=data))
    keep(store, a_receipt(CHEAPER, job_id="o6"), a_receipt(CHEAPER, job_id=estimate_log.HOSTILE[2]))
    store.close()

    def asked(*words: str) -> Any:
        return json.loads(trainfare(*words, "--data", data, "--format", "json").out)

    return {
        "data": data,
        "similar": asked("job", "o6")["similar"],
        "elsewhere": asked("estimate", "--of", "o6", "--everywhere"),
        "receipt": asked("receipts", "show", "o6"),
        "text": trainfare("receipts", "show", "o6", "--data", data).out,
    }


@pytest.fixture(scope="module")
def url(said: dict[str, Any]) -> Iterator[str]:
    with serving_data(Path(said["data"]), wall_ms=estimate_log.T0_MS + 86_400_000) as found:
        yield found


@pytest.mark.parametrize("width", [360, 1440])
def test_the_figures_are_those_of_the_commands(
    url: str, opened: Open, said: dict[str, Any], width: int, tmp_path: Path
) -> None:
    page = opened(f"{url}/#/job/o6", width=width).page
    table = page.get_by_role("table", name="What the job would have cost elsewhere")
    expect(table.get_by_role("row")).to_have_count(2 + len(said["elsewhere"]["places"]), timeout=60_000)
    figures = said["similar"]["figures"]
    cost = page.locator("[data-figure=cost_usd]")
    titles = [each.get_attribute("title") for each in cost.locator("[title]").all()]
    assert titles == [shown(figures["cost_usd"][name]) for name in ("job", "median", "p95")]
    expect(cost).to_contain_text("100 % over the median, above the 95th percentile")
    expect(cost.get_by_role("img")).to_have_attribute("aria-label", "Total $172.80, 100 % over the median, above the 95th percentile: similar jobs from $28.80 to $144.00, half of them $57.60 to $115.20")  # fmt: skip
    expect(page.locator("section[aria-labelledby=similar-title]")).to_contain_text(
        "5 jobs of its kind, completed in the 30 days before its end: team v, GPU H, purchase on_demand, GPUs 8."
    )
    lines = table.locator("tbody tr")
    for at, place in enumerate([said["elsewhere"]["as_it_ran"], *said["elsewhere"]["places"]]):
        assert lines.nth(at).locator(".money").first.get_attribute("title") == shown(place["cost_usd"])
    expect(lines.nth(1)).to_contain_text("\u2212$144.00 (\u221283 %)")
    expect(page.locator("section[aria-labelledby=elsewhere-title]")).to_contain_text("1 SKU of GPU-time began to have a price only after it ran.")  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    page.screenshot(path=tmp_path / f"beside-{width}.png", full_page=True)


def test_the_receipt_is_downloaded_by_keyboard(url: str, opened: Open, said: dict[str, Any]) -> None:
    page = opened(f"{url}/#/job/o6").page
    receipt = page.locator("section[aria-labelledby=receipt-title]")
    expect(receipt).to_contain_text("o6 completed: $412.07", timeout=60_000)
    for words, wanted in (("Download as text", said["text"]), ("Download as JSON", said["receipt"])):
        link = receipt.get_by_role("link", name=words)
        link.focus()
        with page.expect_download() as download:
            page.keyboard.press("Enter")
        assert download.value.suggested_filename.startswith("receipt-rc_")
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert (text if isinstance(wanted, str) else json.loads(text)) == wanted


@pytest.mark.parametrize("job_id", HOSTILE)
def test_hostile_ids_are_names(url: str, opened: Open, job_id: str) -> None:
    watched = opened(f"{url}/#/job/{quote(job_id, safe='')}", width=360)
    page = watched.page
    if job_id.startswith("<"):
        watched.provoked = ("404",)
        expect(page.locator("#job .notice")).to_contain_text("knows no job of this id", timeout=60_000)
    else:
        said = "Of 4 places of the price list 3 would have been cheaper"
        expect(page.locator("section[aria-labelledby=elsewhere-title]")).to_contain_text(said, timeout=60_000)
        nothing = "Fewer than 5 similar jobs were completed in the 30 days before its end"
        expect(page.locator("section[aria-labelledby=similar-title]")).to_contain_text(nothing)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
