"""An assignment must keep each shard whole."""

from __future__ import annotations

import pytest

from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.ingest.assignment import check_assignment


def test_whole_shards_are_taken() -> None:
    assert check_assignment({TP(f"t.{topic}", n) for topic in SHARD_TOPICS for n in (1, 4)}, "t.") == {1, 4}
    assert check_assignment(set(), "t.") == set()


def test_a_shard_whose_topics_lie_with_different_workers_is_refused() -> None:
    split = {TP(f"t.{topic}", 1) for topic in SHARD_TOPICS} - {TP("t.gpu", 1), TP("t.nodes", 1)}
    with pytest.raises(
        TrainfareError, match=r"partition 1 was assigned to this worker without t\.gpu, t\.nodes"
    ):
        check_assignment(split, "t.")
