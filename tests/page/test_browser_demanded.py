"""Where CI demands a browser, its absence fails; elsewhere it is a skip with its reason."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PLANTED = """
from pathlib import Path
import tests.page.conftest as conftest
from tests.page.conftest import browser

conftest.CHROMIUM = Path("/nowhere/chromium")

def test_planted(browser):
    pass
"""


@pytest.mark.parametrize(("demanded", "outcome"), [("1", "1 error"), ("0", "1 skipped")])
def test_a_missing_browser(tmp_path: object, demanded: str, outcome: str) -> None:
    path = f"{tmp_path}/test_planted.py"
    with open(path, "w") as file:  # noqa: PTH123 - tmp_path is a text here
        file.write(PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path],
        env={**os.environ, "TRAINFARE_REQUIRE_BROWSER": demanded, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
    )
    assert outcome in done.stdout.splitlines()[-1], done.stdout
