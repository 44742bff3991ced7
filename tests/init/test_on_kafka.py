"""`trainfare init` on a real Kafka: topics, a worker, prices and a collector, beside a Slurm whose commands are stood for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forked import without_settings
from tests.init.slurm_site import SlurmSite
from tests.kafka.broker import _free_ports, shared_broker


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_with_a_kafka_the_meter_is_a_worker(tmp_path: Path) -> None:
    directory = tmp_path / "live"
    programs = SlurmSite().programs(tmp_path / "bin")
    prefix = f"init-{os.getpid()}."
    env = {
        **without_settings(),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": prefix,
        "TRAINFARE_KAFKA_GROUP_ID": prefix,
        "TRAINFARE_KAFKA_PARTITIONS": "2",
        "TRAINFARE_WEB_PORT": str(_free_ports(1)[0]),
    }
    words = ("init", "slurm", "--yes", "--wait", "0", "--price", "h100=3.60", "--dir", str(directory))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli.main", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert f"created {prefix}" in done.stdout
        assert "1 price acknowledged by" in done.stdout
        assert "no job has held a GPU yet" in done.stdout
        assert '"worker"' in (directory / "systemd/trainfare.service").read_text()
    finally:
        state = directory / "init.json"
        started = json.loads(state.read_text())["started"] if state.exists() else {}
        for pid, _ in started.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
