"""The guards of the test suite itself fire."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.tree import ROOT

TESTS = """
import socket
import pytest

@pytest.mark.kafka
def test_broker():
    pytest.skip("no broker")

def test_other():
    pytest.skip("another reason")

@pytest.mark.parametrize("way", [1])
def test_leak(way):
    try:
        socket.create_connection(("192.0.2.1", 9), timeout=0.1)
    except OSError:
        pass

def test_loopback():
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 9), timeout=1)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a directory with our conftest and tests that break its rules."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_planted.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = kafka: broker\n")
    return tmp_path


def outcome(suite: Path, *words: str, **env: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}  # our conftest has helpers in packages of ours
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


def test_skip_for_want_of_a_broker_fails_where_one_is_demanded(suite: Path) -> None:
    assert "1 failed" in outcome(suite, "-k", "broker", TRAINFARE_REQUIRE_KAFKA="1")
    assert "1 skipped" in outcome(suite, "-k", "broker", TRAINFARE_REQUIRE_KAFKA="0")
    assert "1 skipped" in outcome(suite, "-k", "other", TRAINFARE_REQUIRE_KAFKA="1")


def test_connection_beyond_this_machine_fails_though_it_is_swallowed(suite: Path) -> None:
    assert "1 error" in outcome(suite, "-k", "leak")
    assert "1 passed" in outcome(suite, "-k", "loopback")
