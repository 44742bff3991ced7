"""Kills between storing rows and storing snapshots: the tables end as if nothing had happened.

Every expected row is the oracle's.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import meter
from tests.oracle.compute import compute
from tests.oracle.model import Line
from tests.property.compare import assert_same
from tests.property.profile import PROFILE
from tests.strategies.logs import Log, batch_cuts, logs, months_apart, shuffled


@PROFILE
@given(logs(), st.data())
def test_rows_stored_after_the_last_snapshot_are_put_right(log: Log, data: st.DataObject) -> None:
    cuts = data.draw(batch_cuts(len(log.lines)), label="cuts")
    lost = st.integers(0, 4)
    crashes = data.draw(
        st.dictionaries(st.sampled_from(cuts), lost) if cuts else st.just({}), label="crashes"
    )
    got = meter(log.lines, as_of_ms=log.as_of_ms, cuts=cuts, crashes=crashes, open_at=cuts[::2])
    assert_same(got, compute(log.lines, as_of_ms=log.as_of_ms))


@PROFILE
@given(months_apart().flatmap(shuffled), st.data())
def test_archived_jobs_come_back_as_the_snapshot_knew_them(lines: list[Line], data: st.DataObject) -> None:
    cuts = data.draw(batch_cuts(len(lines)), label="cuts")
    crashes = {cut: 1 + cut % 3 for cut in cuts[1::2]}
    assert_same(meter(lines, cuts=cuts, crashes=crashes), compute(lines))
