"""`trainfare serve` killed, its last write torn, its disk full: nothing acknowledged is lost, and the tables are the oracle's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.run import Chaos, Report


def judged(report: Report) -> None:
    assert report.differences == []
    assert report.answers["202"] > 0
    assert 0 < report.acknowledged <= report.in_log
    assert report.rows > 100


@pytest.mark.timeout(300)
def test_killed_torn_and_full_it_loses_nothing(tmp_path: Path) -> None:
    report = Chaos(tmp_path, 2, jobs=6, seconds=200, life_s=(1.0, 4.0)).go()
    judged(report)
    assert (report.kills, report.torn, report.full) == (2, 1, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_at_a_hundred_places_it_loses_nothing(tmp_path: Path) -> None:
    report = Chaos(tmp_path, 100, jobs=20, seconds=900, life_s=(0.5, 6.0), rest_s=1.5).go()
    judged(report)
    assert (report.kills, report.torn) == (100, 50)
    assert report.full >= 10
