"""The measurement of the watch: it reads every change that comes, and says what it measured."""

from __future__ import annotations

from pathlib import Path

from loadtest import kubernetes_watch


def test_a_small_cluster_is_measured(tmp_path: Path) -> None:
    found = kubernetes_watch.measure(pods=20, changes_per_s=50, seconds=1, directory=tmp_path)
    assert found["list_events"] == 1250 + 5 * 3  # nodes; jobs that are queued, get their GPUs, run
    assert found["watch_events"] > 0
    assert found["changes_read_per_s"] > 0
    assert found["watch_cpu_ratio"] > 0
    assert found["position_bytes"] > 0
