"""Meters a training script: its lifecycle, progress, checkpoints and GPU use.

    import trainfare

    with trainfare.run(job_id="run-7", owner="ada", team="vision", gpus=8) as run:
        for step, batch in enumerate(batches):
            ...
            run.progress(step=step, quality={"loss": loss})
        run.checkpoint()

Nothing here raises into the training or waits for the network. It needs the standard library alone.
"""

from trainfare.api import metered, run
from trainfare.costs import cost_attributes
from trainfare.runs import Run

__all__ = ["Run", "cost_attributes", "metered", "run"]
