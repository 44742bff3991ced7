"""Records what a real Slurm answers while jobs of all kinds run: `python -m tests.collect.slurm.record FILE.jsonl.xz`.

Needs a cluster of its own: examples/quickstart/slurm-cluster.sh, and SLURM_CONF. A line is one look at it:
`{"time": s, "squeue": {...}, "sacct": {...}}`. `--prefix` names what runs the commands, e.g. "chroot /srv/trixie";
`--form` the version of the JSON, where Slurm has a choice (v0.0.40 to v0.0.42 of 24.11).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.collect.recordings import EVIL, write_looks

_PATIENCE_S: Final = 200.0


class Cluster:
    """Slurm's commands."""

    def __init__(self, prefix: Sequence[str], form: str) -> None:
        self._prefix = prefix
        self._json = f"--json={form}" if form else "--json"

    def run(self, *command: str) -> str:
        done = subprocess.run([*self._prefix, *command], check=True, capture_output=True, text=True)
        return done.stdout

    def submit(self, name: str, script: str, *options: str) -> str:
        account = () if "-A" in options else ("-A", "vision")
        text = self.run(
            "sbatch", "--parsable", "-J", name, "-o", "/dev/null", *account, *options, "--wrap", script
        )
        return text.strip()

    def look(self) -> dict[str, Any]:
        """All that is known; like a collector, but without any choice of jobs."""
        return {
            "time": int(time.time()),
            "squeue": json.loads(self.run("squeue", self._json, "--states=all")),
            "sacct": json.loads(self.run("sacct", "-D", "-X", self._json, "-S", "now-1days", "-E", "now")),
        }

    def state(self, job: str) -> str:
        return self.run("squeue", "--noheader", "--states=all", "-o", "%T", "-j", job).strip()


class Recorder:
    """Looks at the cluster about once a second, keeps what shows a job in another state than the look before."""

    def __init__(self, cluster: Cluster) -> None:
        self.looks: list[dict[str, Any]] = []
        self._cluster = cluster

    def until(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            self._keep(self._cluster.look())
            if done():
                return
            if time.monotonic() > deadline_s:
                raise TimeoutError(self._cluster.run("squeue", "--states=all"))
            time.sleep(0.7)

    def wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end_s)

    def last(self) -> None:
        """Keep the last look in any case: accounting may have come since."""
        self.looks.append(self._cluster.look())

    def _keep(self, look: dict[str, Any]) -> None:
        if not self.looks or _states(look) != _states(self.looks[-1]):
            self.looks.append(look)


def _states(look: dict[str, Any]) -> list[Any]:
    return [
        (job["job_id"], job["job_state"], job["nodes"], job["restart_cnt"]) for job in look["squeue"]["jobs"]
    ]


def scenario(cluster: Cluster, recorder: Recorder) -> None:
    """Submit jobs of all kinds and wait for their ends."""

    def is_in(job: str, state: str) -> Callable[[], bool]:
        return lambda: cluster.state(job) == state

    one = ("-n1", "--gres=gpu:1")
    cluster.submit("ok", "sleep 8", "-n1", "--gres=gpu:h100:2")
    cluster.submit("bad", "sleep 2; exit 3", "-n1", "--gpus=1")
    cluster.submit("sweep", "sleep 2", "-A", "nlp", "-N2", "--gpus-per-node=1", "--array=1-2%1")
    cluster.submit(EVIL, "sleep 3", *one)
    cluster.submit("cpu", "sleep 3", "-n2")
    never = cluster.submit("never", "true", *one, "--begin=now+1hour")
    slow = cluster.submit("slow", "sleep 300", *one, "--time=1", "-w", "n1")
    again = cluster.submit("again", "sleep $((20 / (${SLURM_RESTART_COUNT:-0} * 9 + 1)))", *one, "--requeue")
    recorder.until(is_in(again, "RUNNING"))
    recorder.wait(2)
    cluster.run("scancel", never)
    cluster.run("scontrol", "requeue", again)
    recorder.until(is_in(again, "PENDING"))
    cluster.run("scontrol", "update", f"JobId={again}", "StartTime=now")
    recorder.until(is_in(again, "COMPLETED"))
    het = cluster.submit("het", "sleep 4", *one, ":", "-n1", "--gres=gpu:2")
    paused = cluster.submit("paused", "sleep 6", *one)
    shrinks = cluster.submit("shrinks", "sleep 9", "-N2", "--gpus-per-node=1")
    killed = cluster.submit("killed", "sleep 60", *one)
    recorder.until(is_in(shrinks, "RUNNING"))
    recorder.until(is_in(paused, "RUNNING"))
    recorder.wait(1)
    cluster.run("scontrol", "suspend", paused)
    cluster.run("scontrol", "update", f"JobId={shrinks}", "NumNodes=1")
    recorder.wait(2)
    cluster.run("scontrol", "resume", paused)
    cluster.run("scancel", killed)
    recorder.until(is_in(paused, "COMPLETED"))
    recorder.until(is_in(shrinks, "COMPLETED"))
    recorder.until(lambda: set(cluster.state(het).split()) == {"COMPLETED"})
    low = cluster.submit(
        "low", "sleep $((20 / (${SLURM_RESTART_COUNT:-0} * 9 + 1)))", "-n1", "--gres=gpu:4", "-w", "n2"
    )
    recorder.until(is_in(low, "RUNNING"))
    recorder.wait(1)
    high = cluster.submit("high", "sleep 2", "-n1", "--gres=gpu:4", "-w", "n2", "-p", "urgent")
    recorder.until(is_in(high, "COMPLETED"))
    recorder.until(is_in(low, "PENDING"))
    cluster.run("scontrol", "update", f"JobId={low}", "StartTime=now")
    recorder.until(is_in(low, "COMPLETED"))
    lost = cluster.submit("lost", "sleep 60", "-n1", "--gres=gpu:1", "-w", "n2", "--no-requeue")
    recorder.until(is_in(lost, "RUNNING"))
    recorder.wait(1)
    cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=trial")  # comes back by itself
    recorder.until(is_in(lost, "NODE_FAIL"))
    recorder.until(is_in(slow, "TIMEOUT"))
    recorder.wait(6)
    recorder.last()


def main() -> None:
    """Record the scenario into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--form", default="")
    given = parser.parse_args()
    cluster = Cluster(given.prefix.split(), given.form)
    recorder = Recorder(cluster)
    scenario(cluster, recorder)
    write_looks(given.file, recorder.looks)


if __name__ == "__main__":
    main()
