"""The measure of one shard runs, counts what it should, and refuses a shard that folds something else."""

from __future__ import annotations

import pytest

from loadtest import one_shard


def test_it_prints_every_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert one_shard.main(["--records", "40", "--jobs", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one shard, 20 jobs of 8 GPUs, 2 samples each")
    counts = {line[:28].strip(): int(line[28:].split()[0].replace(",", "")) for line in lines[1:]}
    assert counts["jobs: decode and fold"] == 20
    assert counts["gpu: decode and fold"] == 40
    assert counts["gpu: GPU-seconds"] == 40 * 8 * 10
    assert counts["rows of a checkpoint"] > 0


def test_a_shard_that_misses_records_is_no_measurement() -> None:
    shard = one_shard._shard()
    one_shard._fold(shard, "jobs", one_shard._lifecycle(2))
    assert shard.books.applied == 2
    assert shard.books.dead_lettered == 0
