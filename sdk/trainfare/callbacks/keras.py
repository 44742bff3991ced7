"""A run for Keras: `model.fit(..., callbacks=[KerasCallback(job_id="run-7")])`.

It must not read values at each batch: that would wait for the GPU.
"""

from __future__ import annotations

from typing import Any

from trainfare.callbacks.base import MeteredCallback, quiet


class KerasCallback(MeteredCallback):
    """From `on_train_begin` to `on_train_end`; a run without that end has failed, by the exception that ended the script."""

    BASES = (
        ("keras.src.callbacks.callback", "Callback"),
        ("keras.callbacks", "Callback"),
        ("tensorflow.keras.callbacks", "Callback"),
    )

    def __init__(self, *, saves_each_epoch: bool = False, **options: Any) -> None:
        """`saves_each_epoch`: another callback, which stands before this one, writes a checkpoint after each epoch."""
        super().__init__(**options)
        self._saves_each_epoch = saves_each_epoch
        self._step = 0

    def _copied(self) -> dict[str, Any]:
        return {**super()._copied(), "saves_each_epoch": self._saves_each_epoch}

    def set_params(self, params: Any) -> None:
        """Keep what `fit` was told, as Keras's own callbacks do."""
        self.params = params

    @quiet
    def on_train_begin(self, logs: Any = None) -> None:
        """Begin."""
        self._step = 0
        self._begin()

    @quiet
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step."""
        self._step += 1
        self._progress(step=self._step)
        self._mark_hook()

    @quiet
    def on_test_end(self, logs: Any = None) -> None:
        """Note the end of a validation, which comes before the checkpoint of an epoch."""
        self._mark_hook()

    @quiet
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep the metrics of an epoch, and record its checkpoint."""
        self._progress(logs, epoch=epoch + 1)
        if self._saves_each_epoch:
            self._checkpoint()

    @quiet
    def on_train_end(self, logs: Any = None) -> None:
        """End."""
        self._end()
