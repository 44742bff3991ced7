"""Prometheus' own programs, as Debian packages them.

A test is skipped in words, or fails where they are demanded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

REQUIRE_PROMETHEUS = os.environ.get("TRAINFARE_REQUIRE_PROMETHEUS") == "1"


def program_or_skip(name: str, *, required: bool) -> str:
    """The path of the program; without it, the end of the test."""
    path = shutil.which(name)
    if path is None:
        package = name if name == "prometheus-alertmanager" else "prometheus"
        reason = f"no `{name}` on the PATH (Debian: apt-get install {package})"
        if required:
            pytest.fail(f"TRAINFARE_REQUIRE_PROMETHEUS=1, but {reason}")
        pytest.skip(reason)
    return path


@pytest.fixture
def program() -> Callable[[str], str]:
    """Find a program by its name."""
    return lambda name: program_or_skip(name, required=REQUIRE_PROMETHEUS)
