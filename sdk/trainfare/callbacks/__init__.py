"""Runs for trainers that have hooks: no `with` statement where a trainer owns the loop.

    from trainfare.callbacks import HuggingFaceCallback
    Trainer(..., callbacks=[HuggingFaceCallback(job_id="run-7", gpus=8)])

Nothing is imported but what the training has imported already.
"""

from trainfare.callbacks.huggingface import HuggingFaceCallback
from trainfare.callbacks.keras import KerasCallback
from trainfare.callbacks.lightning import LightningCallback

__all__ = ["HuggingFaceCallback", "KerasCallback", "LightningCallback"]
