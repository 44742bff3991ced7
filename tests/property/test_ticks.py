"""Burn rates and alerts are a function of the log: not of its batches, nor of restarts in the middle of an episode."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.harness_ticks import run
from tests.property.profile import PROFILE
from tests.strategies.telling import Trace
from tests.strategies.traces import merged, traces

places = st.lists(st.floats(0, 1), min_size=2, max_size=6)


@PROFILE
@given(traces(hours_at_most=3, jobs_at_most=2), places, places)
def test_cuts_and_restarts_change_nothing(trace: Trace, cuts: list[float], restarts: list[float]) -> None:
    lines = merged([trace])
    once = run(lines)
    again = run(lines, cuts, restarts)
    assert again.alerts == once.alerts
    assert set(again.messages) == set(once.messages)
    # Without the base that knows what was written, some rows are written besides; none is another one.
    rows = {(row["job_id"], row["time"]): row for row in again.burn_rates}
    for row in once.burn_rates:
        assert rows[row["job_id"], row["time"]] == row
