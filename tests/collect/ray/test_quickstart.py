"""A real Ray on this machine, the meter beside it, and their figures side by side: what a newcomer runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.kafka.broker import _free_ports

_ROOT: Final = Path(__file__).parents[3]
_SCRIPT: Final = _ROOT / "examples/quickstart/ray.sh"
_RAY: Final = os.environ.get("RAY") or str(Path(shutil.which("ray") or "absent/ray").parent)


@pytest.mark.skipif(
    not (Path(_RAY) / "ray").exists() or shutil.which("curl") is None,
    reason="no Ray: RAY=FOLDER names its programs; see examples/quickstart",
)
@pytest.mark.timeout(900)
def test_jobs_on_a_real_ray_cost_what_its_own_times_say(tmp_path: Path) -> None:
    port, dashboard, client, agent, web = _free_ports(5)
    done = subprocess.run(
        [str(_SCRIPT), str(tmp_path / "q")],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "RAY": _RAY,
            "RAY_PORT": str(port),
            "RAY_DASHBOARD_PORT": str(dashboard),
            "RAY_OPTIONS": f"--ray-client-server-port={client} --dashboard-agent-listen-port={agent}",
            "TRAINFARE_WEB_PORT": str(web),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [line.split("\t") for line in done.stdout.splitlines() if re.match(r"[\w-]+\t\w+\t\d\t", line)]
    assert [row[:3] for row in rows] == [
        ["groups", "completed", "1"],
        ["lr-1", "completed", "1"],
        ["lr-2", "completed", "2"],
    ]
    assert all(float(usd) > 0 for *_, usd in rows)
    assert done.stdout.endswith("equal, to the nano-dollar\n")
    shown = (_ROOT / "examples/quickstart/README.md").read_text().split("ray.sh\n")[1].split("```\n")[0]
    of_both = [re.sub(r"\d+\.\d{9}", "USD", text) for text in (shown, done.stdout)]
    assert of_both[0] == of_both[1]
