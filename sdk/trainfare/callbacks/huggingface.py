"""A run for `transformers.Trainer`: `Trainer(..., callbacks=[HuggingFaceCallback(job_id="run-7")])`."""

from __future__ import annotations

from typing import Any

from trainfare.callbacks.base import MeteredCallback, quiet

#: What the trainer logs beside how good the model is.
_OF_THE_TRAINER = (
    "_runtime",
    "_per_second",
    "epoch",
    "learning_rate",
    "total_flos",
    "step",
    "grad_norm",
    "num_input_tokens_seen",
)


class HuggingFaceCallback(MeteredCallback):
    """From `on_train_begin` to `on_train_end`; a run without that end has failed, by the exception that ended the script."""

    BASES = (("transformers.trainer_callback", "TrainerCallback"),)

    @quiet
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin: one process reports for the job, others sample their GPUs."""
        self._begin(is_main_process=bool(state.is_world_process_zero))

    @quiet
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count an optimiser's step."""
        self._progress(step=state.global_step)
        self._mark_hook()

    @quiet
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep what the trainer logs: the loss, and how many tokens it has seen if it counts them."""
        tokens = getattr(state, "num_input_tokens_seen", 0)
        self._progress(_quality_of(logs), epoch=state.epoch, **({"tokens": tokens} if tokens else {}))
        self._mark_hook()

    @quiet
    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        """Keep what an evaluation found."""
        self._progress(_quality_of(metrics))
        self._mark_hook()

    @quiet
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record a checkpoint; the trainer calls this when it is written, and writes it after the hook before this one."""
        self._checkpoint(step=state.global_step)

    @quiet
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End."""
        self._end()


def _quality_of(logs: Any) -> dict[str, Any]:
    return {name: value for name, value in (logs or {}).items() if not name.endswith(_OF_THE_TRAINER)}
