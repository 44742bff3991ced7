"""Takes the pictures of the README and the documentation from the running demonstration: `python -m tests.page.shots [URL]`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.page.asked import Asked
from tests.page.conftest import CHROMIUM
from tests.page.picture import smaller

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
#: Pages for the doors of the documentation (docs/start): the picture, the address, what is there once it is drawn.
PAGES = (
    ("costs-light", "costs?by=team&range=24h&per=hour", ".costs-chart canvas"),
    ("dashboard-light", "dashboards/oncall?range=24h", ".panel canvas"),
)
PAGED = ".alert[data-severity=page][data-status=firing]:has(.delivered[data-delivered=yes])"
#: The list of jobs is asked for less often than alerts come.
MARKED = ".jobs-table tbody tr[data-band=far]"


@contextmanager
def demonstration() -> Iterator[str]:
    """Run the demonstration; yield the page's address."""
    command = [
        str(Path(sys.executable).parent / "trainfare"),
        "demo",
        "--seconds",
        "240",
        "--port",
        "0",
        "--no-browser",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            raise SystemExit("the demonstration names no page")
        try:
            yield found.group()
        finally:
            running.terminate()


def keep(name: str, png: bytes) -> None:
    """Store one picture."""
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{name}.png"
    path.write_bytes(smaller(png))
    print(f"{path.name}: {path.stat().st_size:,} bytes")  # noqa: T201 - a tool that says what it wrote


def main(url: str) -> None:
    """Wait until the runaway job pages its owner, then look at the page from four sides, then at other pages."""
    taken: dict[str, bytes] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        wide = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="dark")
        narrow = browser.new_page(viewport={"width": 400, "height": 860}, color_scheme="light")
        asked = Asked(wide)
        for page in (wide, narrow):
            page.goto(url)
        wide.wait_for_selector(PAGED, timeout=120_000)
        wide.wait_for_selector(MARKED, timeout=30_000)
        wide.wait_for_timeout(500)
        taken["page-dark"] = wide.screenshot()
        taken["page-phone-light"] = narrow.screenshot()
        narrow.emulate_media(color_scheme="dark")
        narrow.evaluate("document.querySelector('.jobs').scrollIntoView()")
        narrow.wait_for_timeout(300)
        taken["jobs-phone-dark"] = narrow.screenshot()
        wide.locator(PAGED).locator(".subject").click()
        wide.wait_for_selector(".explain tbody tr")
        wide.set_viewport_size({"width": 1400, "height": 1180})
        wide.emulate_media(color_scheme="light")
        wide.mouse.move(5, 5)
        wide.wait_for_timeout(1000)
        taken["job-light"] = wide.screenshot()
        for name, address, drawn in PAGES:
            asked.show(address)
            wide.wait_for_selector(drawn, timeout=60_000)
            taken[name] = wide.screenshot()
        browser.close()
    for name, png in taken.items():
        keep(name, png)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with demonstration() as address:
            main(address)
