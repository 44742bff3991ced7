"""The guards of the test suite itself fire."""

from __future__ import annotations

import os
import re
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


def outcomes(suite: Path, *words: str, **env: str) -> set[str]:
    """Each outcome and the test that had it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}  # our conftest has helpers in packages of ours
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True)
    found = re.findall(r"^test_planted\.py::(\S+) ([A-Z]+)", done.stdout, re.MULTILINE)
    return {f"{name} {said}" for name, said in found}


def test_what_the_conftest_forbids_fails(suite: Path) -> None:
    """A skip for want of a broker where one is demanded, and a connection beyond this machine though it is swallowed."""
    assert outcomes(suite, TRAINFARE_REQUIRE_KAFKA="1") == {
        "test_broker FAILED",
        "test_other SKIPPED",
        "test_leak[1] PASSED",
        "test_leak[1] ERROR",
        "test_loopback PASSED",
    }


def test_a_skip_for_want_of_a_broker_is_one_where_none_is_demanded(suite: Path) -> None:
    assert outcomes(suite, "-k", "broker", TRAINFARE_REQUIRE_KAFKA="0") == {"test_broker SKIPPED"}
