"""Records what W&B writes on disk while runs come and go: `python -m tests.collect.wandb.record FILE.jsonl.xz --python PYTHON`.

PYTHON has the package wandb (`pip install wandb`, into an environment of its own); nothing is sent, WANDB_MODE is offline.
A line is one look: `{"time_ms": ms, "files": {path: base64}}`.
"""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.collect.recordings import EVIL, write_looks

#: Runs of all kinds; before each look it waits for a line.
_TRAINING: Final = """
import os, signal, time, wandb
def look():
    print(".", flush=True)
    input()
mine = {"password": "hunter2", "trainfare.gpus": 2, "trainfare": {"gpu_type": "H100", "owner": "ada"}}
run = wandb.init(project="lr-sweep", entity="vision", name="first", id="my-run-7", config=mine)
look()
run.log({"loss": 1.0, "epoch": 0, "bad": float("nan"), "text": "hunter2"}, step=10)
run.log({"loss": 0.5, "epoch": 1}, step=20)
time.sleep(1)
run.finish(exit_code=1)
look()
run = wandb.init(project="lr-sweep", entity="vision", name="first", id="my-run-7", resume="allow", config=mine)
run.log({"loss": 0.4}, step=15)
run.log({"loss": 0.3}, step=30)
time.sleep(1)
run.finish()
look()
run = wandb.init(project="other", name=EVIL, id="attached", config={"trainfare.job_id": "17_3"})
for step in range(300):
    run.log({"accuracy": step / 400, "noise": "x" * 50}, step=step)
run.finish()
look()
run = wandb.init(project="other", id="killed", config={"trainfare.gpus": 0.5})
for step in range(300):
    run.log({"accuracy": step / 400}, step=step)
time.sleep(3)
look()
"""


def _look(folder: Path) -> dict[str, Any]:
    files = {
        str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(folder.glob("wandb/*run-2*/*.wandb"))
    }
    return {"time_ms": time.time_ns() // 10**6, "files": files}


def main() -> None:
    """Record the runs into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--python", type=Path, required=True)
    given = parser.parse_args()
    looks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "train.py").write_text(f"EVIL = {EVIL!r}\n{_TRAINING}", encoding="utf-8")
        environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
        with subprocess.Popen(
            [str(given.python), "train.py"],
            cwd=folder,
            env={**environment, "WANDB_DISABLE_GIT": "true", "WANDB_CONSOLE": "off"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            for line in process.stdout:
                if line.strip() == ".":
                    time.sleep(2)
                    looks.append(_look(folder))
                    if "killed" in "".join(looks[-1]["files"]):
                        process.kill()
                        break
                    process.stdin.write("\n")
                    process.stdin.flush()
        time.sleep(3)
        looks.append(_look(folder))
    write_looks(given.file, looks)


if __name__ == "__main__":
    main()
