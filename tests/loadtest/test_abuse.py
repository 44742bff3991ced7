"""A small attack on a worker, from its start to the comparison of its books; how long anything took is not judged."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest import abuse
from loadtest.latency_world import WorldError
from tests.kafka.broker import why_not
from tests.loadtest.abuse_figures import figures

OPTIONS = {
    "seconds": 6, "quiet": 4, "settle": 1, "rate": 500, "jobs": 20, "idle": 100, "slow": 10, "deaf": 4, "bombers": 2,
    "guessers": 1, "addresses": 4,
}  # fmt: skip
_TIMED = {
    "/healthz",
    "live p99",
    "memory of the worker",
    "queries end at SIGTERM",
    "the worker ends at SIGTERM",
}


class Done:
    """An attack that is over; `figures` is what it came to, or why it could not be."""

    figures: dict[str, Any] | Exception

    def __init__(self, options: argparse.Namespace, kafka: object, directory: Path) -> None:
        assert options.idle == 2_000
        (directory / "worker.log").write_text("what it said")

    def go(self) -> dict[str, Any]:
        if isinstance(self.figures, Exception):
            raise self.figures
        return self.figures


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (figures(), 0, ""),
        (figures({"rss_mib": 1_000.0}), 1, "memory of the worker: asked +300 MiB at most, found +400 MiB"),
        (figures(wrong=["job a: got 1, want 2"]), 1, "job a: got 1, want 2"),
        (WorldError("the worker ended by itself"), 1, "the worker ended by itself"),
    ],
)
def test_a_limit_that_does_not_hold_is_said_and_is_the_exit_code(
    found: dict[str, Any] | Exception, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(Done, "figures", found, raising=False)
    monkeypatch.setattr(abuse, "Attack", Done)
    monkeypatch.setattr(abuse, "broker", lambda _: nullcontext(SimpleNamespace(bootstrap_servers="")))
    monkeypatch.setattr(abuse, "settings_for", lambda *_: SimpleNamespace(kafka=None))
    monkeypatch.setattr("sys.platform", "linux")
    out, log = tmp_path / "figures.json", tmp_path / "kept.log"
    assert abuse.main(["--out", str(out), "--log", str(log)]) == code
    assert said in capsys.readouterr().err
    assert out.exists() == isinstance(found, dict)
    assert log.read_text() == "what it said"


@pytest.mark.kafka
def test_a_small_attack_measures_everything_and_the_books_balance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    if why_not() is not None:
        pytest.skip(str(why_not()))
    out, log = tmp_path / "abuse.json", tmp_path / "worker.log"
    words = [f"--{name}={value}" for name, value in OPTIONS.items()]
    abuse.main([*words, "--json", str(out), "--log", str(log)])
    assert out.exists(), capsys.readouterr().err
    found = json.loads(out.read_text())
    assert [each for each in found["verdicts"] if not each["ok"] and each["name"] not in _TIMED] == []
    assert found["stop"]["code"] == 0
    assert found["alive"]
    assert found["wrong"] == []
    assert float(found["usd"]) > 0
    for phase in ("baseline", "attack"):
        for what in ("live", "healthz", "jobs", "sql"):
            assert found[phase][what]["asked"] > 0, (phase, what)
        assert found[phase]["healthz"]["right"] > 0
        assert found[phase]["rss_mib"] > 0
        assert found[phase]["load_per_s"] > 0
    assert found["attack"]["files"] > found["baseline"]["files"]
    assert found["attack"]["queries"] >= 1
    assert found["attackers_met"]["guess"]["401"] > 0
    assert any(name.startswith("bomb ") for name in found["attackers_met"])
    assert found["edge"]["tokens_refused_total"] > 0
    assert "Traceback" not in log.read_text()
