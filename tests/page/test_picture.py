"""A picture made smaller shows the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from tests.page.picture import decode, smaller

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def test_a_screenshot_keeps_its_colours(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 200, "height": 120})
    page.set_content("<body style='background:#123456;color:#fedcba;margin:0'><h1>Dollars</h1>")
    png = page.screenshot()
    page.close()
    before = decode(png)
    assert tuple(before[119, 199]) == (0x12, 0x34, 0x56)
    small = smaller(png)
    assert len(small) < len(png)
    assert small[25] == 3, "a palette"
    with pytest.raises(ValueError, match="expected 8-bit RGB"):
        decode(small)
    with pytest.raises(ValueError, match="not a PNG"):
        decode(b"GIF89a")
    assert np.unique(before.reshape(-1, 3), axis=0).shape[0] > 2


def test_pictures_of_the_readme_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert len(sizes) >= 4
    assert max(sizes.values()) < 200_000, sizes
