"""A real Slurm on this machine whose GPU type is `h100`, and prices for `H100`: what `trainfare init` makes of them.

docs/init.md shows this run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from tests.collect.slurm.test_quickstart import _MISSING, _PATH, free_row
from tests.forked import ROOT
from tests.init.started import StartedMeter

_CLUSTER: Final = ROOT / "examples/quickstart/slurm-cluster.sh"
_PAGE: Final = ROOT / "docs/init.md"
_PRICES: Final = "sku,gpu_type,usd,per,from\nlab.h100,H100,3.60,gpu_hour,\n"
#: What differs from run to run: digits, and where the files are.
_VARIES: Final = re.compile(r"/\S*/live|\d+(?:\.\d+)*| {2,}")


class SlurmMachine(StartedMeter):
    """The cluster, and commands beside it."""

    def __init__(self, folder: Path) -> None:
        self._cluster = folder / "slurm"
        port = str(free_row(5))
        subprocess.run([_CLUSTER, "start", self._cluster, port], check=True, capture_output=True, timeout=300)
        path = f"{Path(sys.executable).parent}:{_PATH}"
        super().__init__(folder, PATH=path, SLURM_CONF=str(self._cluster / "slurm.conf"))

    def submit(self, name: str, gpus: int, command: str) -> str:
        words = ("--gres", f"gpu:h100:{gpus}", "--output", "/dev/null", "--wrap", command)
        return self.run("sbatch", "--parsable", "--account", "vision", "--job-name", name, *words).strip()

    def accounted(self, ids: list[str]) -> dict[str, tuple[str, Decimal]]:
        """The same by sacct: (end - begin) x GPUs x a tenth of a cent, from the second on at which the meter began."""
        since = tomllib.loads((self.directory / "collect.toml").read_text())["slurm"]["since"]
        found = {}
        for job in ids:
            line = self.run("sacct", "-X", "-n", "-P", "-j", job, "--format=State,Start,End,AllocTRES")
            state, begin, end, tres = line.strip().split("|")
            gpus = int(tres.split("gres/gpu=")[1].split(",")[0])
            if end == "Unknown":
                return {}
            begun, ended = (datetime.fromisoformat(f"{at}+00:00") for at in (begin, end))
            if ended > since:
                seconds = int((ended - max(begun, since)).total_seconds())
                found[job] = (state.lower(), seconds * gpus * Decimal("0.001"))
        return found

    def stop(self) -> None:
        super().stop()
        subprocess.run([_CLUSTER, "stop", self._cluster], check=False, capture_output=True, timeout=120)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SlurmMachine]:
    found = SlurmMachine(tmp_path)
    try:
        yield found
    finally:
        found.stop()


@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}; see examples/quickstart")
@pytest.mark.timeout(900)
def test_a_type_in_another_case_costs_what_sacct_says(machine: SlurmMachine) -> None:
    (machine.folder / "prices.csv").write_text(_PRICES)
    # Both begin before the meter does: what they cost begins with the meter. The second ends within it.
    ids = [machine.submit("before", 2, "sleep 10"), machine.submit("sweep", 3, "sleep 45")]
    words = ("init", "slurm", "--yes", "--prices", "prices.csv")
    out = machine.run("trainfare", *words)
    assert [line for line in out.splitlines() if line.rstrip().endswith("equal")], out
    assert "differs" not in out

    machine.until_metered(lambda: machine.accounted(ids))
    assert machine.metered()[ids[1]][1] > 0
    assert "no alert is like that" in machine.run("trainfare", "alerts", "list", "--data", machine.directory)

    shown = _PAGE.read_text().split("```\n$ trainfare init slurm")[1].split("```")[0].split("\n", 1)[1]
    assert _shape(out) == _shape(shown)

    pids = re.search(r"to stop: kill (.*)", out)
    assert pids
    again = machine.run("trainfare", *words)
    assert f"to stop: kill {pids[1]}" in again
    assert "trainfare: runs" in again
    collect = machine.directory / "collect.toml"
    collect.write_text(collect.read_text().replace("# interval_s = 15.0", "interval_s = 5.0"))
    edited = machine.run("trainfare", *words)
    assert "collect.toml: kept, as you changed it" in edited
    assert f"to stop: kill {pids[1].split()[0]} " in edited
    assert f"to stop: kill {pids[1]}" not in edited
    assert "interval_s = 5.0" in collect.read_text()


def _shape(text: str) -> list[str]:
    """The text without what differs from run to run: figures, and how many jobs have ended by then."""
    lines = [_VARIES.sub(" ", line).strip() for line in text.splitlines() if "still runs:" not in line]
    jobs = [line for line in lines if line.endswith("equal")]
    return [line for line in lines if line and not line.endswith("equal")] + jobs[:1]
