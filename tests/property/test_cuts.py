"""A log tells the same alerts whole, cut at any places, and record by record: each minute is judged by what was known then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import Alert
from tests.property.chronicle import judged, looked, records_of
from tests.property.ledger_stories import LENGTH, Story, stories
from tests.property.profile import EXAMPLES, PROFILE
from tests.worker.ledger_lab import opened


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("cuts"))) as opened_store:
        yield opened_store


def told(changes: list[Alert]) -> list[dict[str, Any]]:
    """Each change with its figures and its sentence; the order of those of one minute does not count."""
    rows = [msgspec.structs.asdict(each) for each in changes]
    return sorted(rows, key=lambda row: (row["changed_ms"], row["alert_id"]))


@pytest.mark.timeout(900)
@settings(PROFILE, max_examples=max(EXAMPLES // 50, 2))
@given(stories(changes=True), st.lists(st.integers(1, 20), max_size=4), st.booleans())
def test_a_log_tells_the_same_however_it_is_cut(
    store: ClickHouseStore, story: Story, cuts: list[int], by_record: bool
) -> None:
    count = len(records_of(story))
    whole = told(asyncio.run(judged(store, story, [])))
    parts = range(1, count) if by_record else [each for each in cuts if each < count]
    assert told(asyncio.run(judged(store, story, list(parts)))) == whole


@pytest.mark.timeout(900)
@settings(PROFILE, max_examples=max(EXAMPLES // 50, 2))
@given(
    stories(changes=True),
    st.lists(
        st.tuples(st.integers(1, LENGTH - 1), st.booleans()), max_size=4, unique_by=lambda look: look[0]
    ),
)
def test_workers_tell_what_a_replay_tells_however_much_they_find(
    store: ClickHouseStore, story: Story, looks: list[tuple[int, bool]]
) -> None:
    """The first one may find the whole log, or a part of it; each goes on where the one before it stopped."""
    assert told(asyncio.run(looked(store, story, looks))) == told(asyncio.run(judged(store, story, [])))
