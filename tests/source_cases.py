"""Inputs as real systems made them when they were odd, each with what is right (`expected.md` beside it)."""

from __future__ import annotations

from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[1].parent / "shared" / "cases" / "sources"


def source_case(name: str) -> Path:
    """Return the folder of a case; skip the test where there is none."""
    folder = CASES / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    return folder
