"""A small training on the CPU with a checkpoint every 50 steps, which resumes from the last one; see sdk.sh.

It writes what its own clock says of each attempt to clock.jsonl, to compare with what the meter says.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import trainfare

STEPS, STEP_S, CHECKPOINT_EACH = 120, 0.03, 50


def main() -> None:
    """Fit a line to noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for checkpoints")
    parser.add_argument("--fail-at", type=int, metavar="STEP")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    saved = given.folder / "model.npz"
    clock = {"before_ms": now_ms()}
    try:
        with trainfare.run("run-7", owner="ada", team="vision", gpus=8, purchase="on_prem") as run:
            clock.update(attempt=run.attempt, begin_ms=now_ms())
            try:
                train(run, saved, given.fail_at, clock)
            finally:
                clock["end_ms"] = now_ms()
    finally:
        clock["after_ms"] = now_ms()
        with (given.folder / "clock.jsonl").open("a") as file:
            file.write(json.dumps(clock) + "\n")
        ran_ms = clock["end_ms"] - clock["begin_ms"]
        sys.stdout.write(f"-- attempt {clock['attempt']}: {ran_ms} ms of 8 GPUs by the script's own clock\n")


def train(run: trainfare.Run, saved: Path, fail_at: int | None, clock: dict[str, int]) -> None:
    """Take the steps that are left."""
    random = np.random.default_rng(7)
    x = random.normal(size=(4096, 16))
    y = x @ random.normal(size=16) + random.normal(size=4096)
    first, weights = 0, np.zeros(16)
    if saved.exists():
        with np.load(saved) as model:
            first, weights = int(model["step"]), model["weights"]
        sys.stdout.write(f"-- resumed at step {first}\n")
    for step in range(first + 1, STEPS + 1):
        error = x @ weights - y
        weights -= 0.1 * x.T @ error / len(y)
        time.sleep(STEP_S)  # a model that takes longer
        run.progress(step=step, quality={"loss": float(np.mean(error**2))})
        if step == fail_at:
            raise RuntimeError("out of luck")
        if step % CHECKPOINT_EACH == 0:
            np.savez(saved, step=step, weights=weights)
            clock["saving_ms"] = now_ms()
            run.checkpoint()
            clock["saved_ms"] = now_ms()


def now_ms() -> int:
    """Return the time."""
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
