"""examples/quickstart/sdk.sh as it stands: a training that crashes and resumes costs what its own clock says, to the ms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker import _free_ports
from tests.sdk.scripts import SDK

ROOT = SDK.parent
TRAINFARE = Path(sys.executable).with_name("trainfare")
#: 3.60 USD an hour of a GPU, by the millisecond, and the 8 GPUs of the script.
USD_PER_MS = Decimal("3.60") / 3_600_000 * 8

# Half a minute, but it starts six programs, and other tests may have the cores.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the script printed, and its directory."""
    data = tmp_path_factory.mktemp("quickstart") / "meter"
    (port,) = _free_ports(1)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")},
        "TRAINFARE_WEB_PORT": str(port),
        "TRAINFARE": str(TRAINFARE),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(SDK),
    }
    command = ["bash", "examples/quickstart/sdk.sh", str(data)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, data


def test_it_says_what_happens(played: tuple[str, Path]) -> None:
    printed, _ = played
    told = ("exit status 1", "resumed at step 50", "attempt 2: ", "of it lost")
    assert [text for text in told if text not in printed] == []


def test_the_cost_is_what_the_training_s_own_clock_says(played: tuple[str, Path]) -> None:
    _, data = played
    shown = subprocess.run(
        [TRAINFARE, "job", "run-7", "--data", str(data), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    job = json.loads(shown.stdout)
    assert (job["owner"], job["team"], job["state"], job["attempts"]) == ("ada", "vision", "completed", 2)
    assert [(each["state"], each["reason"]) for each in job["by_attempt"]] == [
        ("failed", "user_error"),
        ("completed", ""),
    ]
    clocks = [json.loads(line) for line in (data / "run-7" / "clock.jsonl").read_text().splitlines()]
    for clock, phase in zip(clocks, job["by_phase"], strict=True):
        assert clock["attempt"] == phase["attempt"]
        paid_ms = Decimal(phase["cost_usd"]) / USD_PER_MS
        # The clock is read right after the start was noted and right before the end is, and on the far sides of both.
        assert clock["end_ms"] - clock["begin_ms"] <= paid_ms <= clock["after_ms"] - clock["before_ms"]
    assert Decimal(job["cost_usd"]) == sum(Decimal(phase["cost_usd"]) for phase in job["by_phase"])
    crashed: dict[str, Any] = clocks[0]
    lost_ms = Decimal(job["lost_cost_usd"]) / USD_PER_MS
    assert crashed["end_ms"] - crashed["saved_ms"] <= lost_ms <= crashed["after_ms"] - crashed["saving_ms"]
