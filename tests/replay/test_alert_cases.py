"""Logs with the alerts that they should tell, replayed as they are: at once and in parts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.command import ROOT
from tests.replay.test_replay_budgets import replay, rows

CASES = ROOT.parent / "shared" / "cases" / "alerts"
TOLD = """
SELECT alert_id, severity, status, owner, started, resolved, firings, budget_usd, summary
FROM alerts FINAL WHERE rule = 'budget_used' ORDER BY started, alert_id"""

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is absent")


def test_a_budget_that_is_raised_is_told_again_whole_and_in_parts(tmp_path: Path) -> None:
    """$79.68/h from 08:00 on: $400 at 13:01:12, raised to $800 at 13:30, $800 at 18:02:24. Whole minutes are judged."""
    log = CASES / "budget_raise_ladder.jsonl.gz"
    replay(tmp_path / "whole", log)
    told = rows(tmp_path / "whole", TOLD)
    said = [
        (each["severity"], each["budget_usd"], each["started"][11:16], (each["resolved"] or "")[11:16])
        for each in told
    ]
    assert [(severity, float(usd), start, end) for severity, usd, start, end in said] == [
        ("ticket", 400, "10:31", "12:01"),
        ("ticket", 400, "12:01", "13:02"),
        ("page", 400, "13:02", "13:30"),
        ("ticket", 800, "13:30", "16:02"),
        ("ticket", 800, "16:02", "18:03"),
        ("page", 800, "18:03", ""),
    ]
    assert {(each["owner"], each["firings"]) for each in told} == {("lead-nlp", 1)}
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    raised = next(at for at, line in enumerate(lines) if b'"usd":"800"' in line)
    for cut in (raised, len(lines) // 2):
        parts = [tmp_path / f"{cut}-{name}.jsonl" for name in "ab"]
        parts[0].write_bytes(b"".join(lines[:cut]))
        parts[1].write_bytes(b"".join(lines[cut:]))
        replay(tmp_path / str(cut), parts[0])
        replay(tmp_path / str(cut), parts[1], "--append")
        assert rows(tmp_path / str(cut), TOLD) == told
