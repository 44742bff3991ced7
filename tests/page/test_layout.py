"""The page on a phone and on a wide screen, dark and light, by keyboard and by roles."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.page import fleet
from tests.page.conftest import Watched
from tests.page.listing import listed
from tests.page.server import Script

Board = Callable[..., Watched]
#: Of the fleet, as the board shows it: jobs that live, sweeps as one row.
ROWS = listed(Script().rows(), {"state": "live", "group": "sweep"})["rows"]
LONG = "experiment-with-a-name-that-nobody-should-have-given-it/" * 3

# Contrast as WCAG computes it, of every visible text against the nearest background behind it.
CONTRAST = """
() => {
  const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility() || element.closest("svg, .unseen, .skip")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${element.textContent.slice(0, 40)}`);
  }
  return [...new Set(poor)];
}
"""


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [400, 720, 1100, 1400, 2200])
def test_nothing_overflows_and_every_text_can_be_read(
    board: Board, script: Script, width: int, scheme: str
) -> None:
    script.specs = [fleet.Spec(LONG, 700, "H100", 0, script.now_ms - 3_600_000), *script.specs]
    script.alerts = [
        fleet.alert(LONG, 0, script.now_ms - 60_000),
        fleet.alert("reward-model-v3", 4, script.now_ms - 90_000, severity="ticket", rule="burn_drift"),
        fleet.alert("gone", 4, script.now_ms - 90_000, status="resolved", resolved_ms=script.now_ms),
    ]
    page = board(width=width, scheme=scheme, calm=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    page.locator(".job-link").first.click()
    expect(page.locator(".explain tbody tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []


#: What is cut off at the right, of tabs and of titles of columns.
CUT = """
() => [...document.querySelectorAll(".pages, .jobs-table th")]
  .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth)
  .map(each => `${each.className || each.textContent}: ${each.scrollWidth - each.clientWidth} px`)
"""


@pytest.mark.parametrize("width", [768, 1000])
def test_a_tablet_shows_all_tabs_and_titles(board: Board, width: int) -> None:
    page = board(width=width).page
    expect(page.locator(".pages a").last).to_be_visible()
    assert page.evaluate(CUT) == []


#: What sticks out of its card on a job's page, but for what scrolls by itself.
OUTSIDE = """
() => [...document.querySelectorAll("#job .panel, #job .parts")].flatMap(card => {
  const box = card.getBoundingClientRect();
  return [...card.querySelectorAll("*")]
    .filter(each => each.checkVisibility() && !each.closest("svg, canvas, .scroller > *, .unseen, pre > *, pre"))
    .filter(each => { const own = each.getBoundingClientRect(); return own.width && (own.right > box.right + 1 || own.left < box.left - 1); })
    .map(each => `${card.querySelector("h3")?.textContent}: ${each.className} ${each.textContent.slice(0, 40)}`);
})
"""


@pytest.mark.parametrize("width", [1000, 1100, 1250, 1400, 1700])
def test_nothing_of_a_job_sticks_out_of_its_card(board: Board, script: Script, width: int) -> None:
    name = "diffusion-xl-finetune"
    sql = f"SELECT {', '.join(f'usd_per_hour_{each}m' for each in range(20))}\nFROM burn_rates"
    script.may_act, script.speed = True, 1
    told = f"{name} burns in {'a-word-that-no-line-can-break' * 3}"
    script.alerts = [
        fleet.alert(name, 0, script.now_ms - 60_000, evidence_sql=sql, summary=told.replace("-", "_"))
    ]
    page = board(f"/#/job/{name}", width=width).page
    expect(page.locator(".components .share").first).to_be_visible()
    expect(page.locator(".evidence .act").first).to_be_visible()
    page.locator(".evidence summary").first.click()
    expect(page.locator(".evidence pre").first).to_be_visible()
    assert page.evaluate(OUTSIDE) == []


def test_dark_and_light_follow_the_system(board: Board) -> None:
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    dark = board(scheme="dark").page.evaluate(colour)
    light = board(scheme="light").page.evaluate(colour)
    assert dark == "rgb(15, 17, 20)"
    assert light == "rgb(245, 244, 239)"


def test_reduced_motion_is_heeded(board: Board, script: Script) -> None:
    script.alerts = [fleet.alert("diffusion-xl-finetune", 0, script.now_ms)]
    name = "getComputedStyle(document.querySelector('.alert')).animationName"
    assert board(calm=True).page.evaluate(name) == "none"
    assert board().page.evaluate(name) == "arrive"


def test_the_first_tab_skips_to_the_jobs(board: Board) -> None:
    page = board().page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the jobs")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


@pytest.mark.parametrize("width", [400, 1400])
def test_roles_hold_in_every_layout(board: Board, script: Script, width: int) -> None:
    script.alerts = [fleet.alert("diffusion-xl-finetune", 0, script.now_ms)]
    page = board(width=width).page
    table = page.get_by_role("table", name="Jobs by burn rate")
    expect(table.get_by_role("row")).to_have_count(ROWS + 1)
    expect(table.get_by_role("columnheader")).to_have_count(6 if width == 400 else 9)
    for role, name in (("region", "The fleet now"), ("region", "Alerts"), ("search", "Filter the jobs")):
        expect(page.get_by_role(role, name=name)).to_have_count(1)  # type: ignore[arg-type]  # a role of ARIA
    assert page.locator("h1").count() == 1
    picture = page.locator("#fleet").get_by_role("img")
    expect(picture).to_have_attribute(
        "aria-label", re.compile("Burn of the fleet over the last 2 h: at most")
    )
    expect(page.locator("#fleet").get_by_role("slider")).to_have_count(1)
    assert page.evaluate("[...document.querySelectorAll('button, a, input, select')].filter(each => !each.checkVisibility() ? false : each.getBoundingClientRect().height < 18).length") == 0  # fmt: skip


def test_every_control_shows_its_focus(board: Board) -> None:
    page = board().page
    for _ in range(12):
        page.keyboard.press("Tab")
        width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert width == "3px", page.evaluate("document.activeElement.outerHTML")


def test_nothing_needs_inline_script_or_style(board: Board) -> None:
    page = board().page
    assert page.locator("style, script:not([src])").count() == 0
    html = page.request.get(page.url).text()
    assert " style=" not in html
    assert "http://" not in html
    assert "https://" not in html
