"""A real Slurm on this machine, the meter beside it, and their figures side by side: what a newcomer runs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.kafka.broker import _free_ports, shared_broker

_ROOT: Final = Path(__file__).parents[3]
_SCRIPT: Final = _ROOT / "examples/quickstart/slurm.sh"
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_MISSING: Final = [
    name
    for name in ("slurmctld", "slurmd", "slurmdbd", "sbatch", "munged", "mariadbd", "curl")
    if shutil.which(name, path=_PATH) is None
]


def free_row(count: int) -> int:
    """The first of some ports in a row that are free now, below those that the system gives to clients."""
    for first in range(18_000, 30_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}; see examples/quickstart")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("log", ["files", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])])
def test_a_sweep_on_a_real_slurm_costs_what_sacct_says(log: str, tmp_path: Path) -> None:
    """That with Kafka differs by the log alone, which collectors share, and takes most of a minute."""
    kafka = {}
    if log == "kafka":
        kafka = {
            "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
            "TRAINFARE_KAFKA_TOPIC_PREFIX": f"slurm-{os.getpid()}.",
            "TRAINFARE_KAFKA_GROUP_ID": f"slurm-{os.getpid()}",
            "TRAINFARE_KAFKA_PARTITIONS": "2",
        }
    done = subprocess.run(
        [str(_SCRIPT), str(tmp_path / "q")],
        env={
            **kafka,
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SLURM_PORT": str(free_row(5)),
            "TRAINFARE_WEB_PORT": str(_free_ports(1)[0]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [line.split("\t") for line in done.stdout.splitlines() if re.match(r"\d+(_\d)?\t", line)]
    assert [(state, attempts) for _, state, attempts, _ in rows] == [
        ("completed", "1"),
        ("completed", "1"),
        ("failed", "1"),
        ("completed", "1"),
        ("completed", "2"),
    ]
    assert all(float(usd) > 0 for *_, usd in rows)
    assert done.stdout.endswith("equal, to the nano-dollar\n")
    # The prolog wrote down who has which GPU; the epilogs took all of it away again.
    assert re.search(r"/gpu-jobs/n\d/\d:\d+$", (tmp_path / "q/gpu-jobs.log").read_text(), re.M)
    assert not list((tmp_path / "q/slurm/gpu-jobs").glob("*/?"))
    shown = (_ROOT / "examples/quickstart/README.md").read_text().split("```\n")[1]
    of_both = [re.sub(r"\d+\.\d{9}", "USD", text) for text in (shown.split("\n", 1)[1], done.stdout)]
    # Slurm gives tasks of the array ids of their own as they start, before or after the next job is submitted.
    of_both = [re.sub(r"^\d+(?=\t)", "ID", text, flags=re.M) for text in of_both]
    assert of_both[0] == of_both[1]
