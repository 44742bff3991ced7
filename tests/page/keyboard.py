"""A link that is found and followed by keys alone."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Locator, Page, expect

#: Further than any page has something to focus, so that a link which is never reached is a failure.
_TABS_MAX: Final = 150
_WITHIN_MS: Final = 60_000


def follow(page: Page, link: Locator) -> None:
    """Press Tab until the link has the focus, then Enter."""
    expect(link).to_be_visible(timeout=_WITHIN_MS)
    for _ in range(_TABS_MAX):
        if link.evaluate("(each) => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
