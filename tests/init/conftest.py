"""A meter that a test of `trainfare init` starts, stopped after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.init.started import StartedMeter


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[StartedMeter]:
    found = StartedMeter(tmp_path)
    try:
        yield found
    finally:
        found.stop()
