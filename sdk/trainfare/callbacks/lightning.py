"""A run for PyTorch Lightning: `Trainer(callbacks=[LightningCallback(job_id="run-7")])`, of either package name.

It must not read tensors at each step: that would wait for the GPU.
"""

from __future__ import annotations

import time
from typing import Any

from trainfare.callbacks.base import MeteredCallback, quiet


class LightningCallback(MeteredCallback):
    """From `on_train_start` to `on_train_end`, or to the exception that ended the training."""

    BASES = (
        ("lightning.pytorch.callbacks.callback", "Callback"),
        ("pytorch_lightning.callbacks.callback", "Callback"),
        ("pytorch_lightning.callbacks.base", "Callback"),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._saving_ms: int | None = None

    @property
    def state_key(self) -> str:
        """The name of its part of a checkpoint, which is empty."""
        return "trainfare"

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep in a checkpoint."""
        return {}

    def load_state_dict(self, state_dict: Any) -> None:
        """Take nothing from a checkpoint."""

    @quiet
    def setup(self, trainer: Any, pl_module: Any, stage: str = "") -> None:
        """Do nothing: the training has not begun."""

    @quiet
    def teardown(self, trainer: Any, pl_module: Any, stage: str = "") -> None:
        """End what was left without an end."""
        if self.run is not None and stage == "fit":
            self.run.end("failed", "unknown")

    @quiet
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin: one process reports for the job, others sample their GPUs."""
        self._begin(is_main_process=bool(trainer.is_global_zero))

    @quiet
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any) -> None:
        """Go on after a checkpoint."""
        self._saved()

    @quiet
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """Count a step."""
        self._progress(step=trainer.global_step)

    @quiet
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the metrics of an epoch."""
        self._saved()
        self._progress(trainer.callback_metrics, epoch=trainer.current_epoch)

    @quiet
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on after a checkpoint."""
        self._saved()

    @quiet
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the metrics of a validation."""
        if not getattr(trainer, "sanity_checking", False):
            self._progress(trainer.callback_metrics)

    @quiet
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Note when: the file is written after this, and is there at the next hook."""
        self._saving_ms = time.time_ns() // 1_000_000
        self._mark_hook()

    @quiet
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End."""
        self._saved()
        self._end()

    @quiet
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End by what was raised. A checkpoint that it interrupted is not there."""
        if self.run is not None:
            self.run.end_by(exception)

    def _saved(self) -> None:
        at_ms, self._saving_ms = self._saving_ms, None
        if self.run is not None and at_ms is not None:
            self._checkpoint(at_ms=at_ms)
