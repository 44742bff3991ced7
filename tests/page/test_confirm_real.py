"""The page behind the link of a request: says what is asked for, and confirms once, as whoever the link is of or who says it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.page.test_layout import CONTRAST
from tests.web.approvals import KEY, SILENCE, Kept, asked, issued, link_of, text_of
from tests.web.serving import WALL_MS

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"


def test_a_link_confirms_once_and_names_who_does(opened: Open, tmp_path: Path) -> None:
    log, tokens = Kept(), {**issued("ada"), **issued("bob"), **issued("eve")}
    requests = asked({**SILENCE, "comment": HOSTILE}, "token/ada")
    options = {
        "wall_ms": WALL_MS,
        "controls": log,
        "filed": tokens,
        "requests": requests,
        "act_link_key": KEY,
    }
    with serving_page(None, **options) as url:
        watched = opened(f"{url}/act#confirm={link_of(requests, what=HOSTILE)}")
        watched.provoked = ("403", "404", "401")
        page = watched.page
        expect(page.get_by_role("heading")).to_have_text("Confirm what another person asks for?")
        expect(page.locator("main")).to_contain_text("token/ada")
        expect(page.locator("main")).not_to_contain_text("null")
        assert page.locator("main img").count() == 0
        assert log.records == []  # opening it does nothing
        page.get_by_label("Your issued token").fill(text_of("ada"))
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("alert")).to_contain_text("whoever asked for it does not confirm it")
        page.screenshot(path=tmp_path / "confirm.png", full_page=True)
        assert page.evaluate(CONTRAST) == []
        page.get_by_label("Your issued token").fill(text_of("bob"))
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator("main")).to_contain_text("token/ada, confirmed by token/bob")
        assert log.by == [("silence", "token/ada, confirmed by token/bob"), ("request", "token/bob")]
        page.goto(f"{url}/act#confirm={link_of(requests, 'token/eve')}")
        page.reload()
        expect(page.locator("main")).to_contain_text("You confirm as token/eve")
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("alert")).to_contain_text("no request of this id waits")
        assert len(log.records) == 2
