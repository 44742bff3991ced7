"""The options of `trainfare collect azure-ml`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.training_jobs.options import TrainingJobOptions


class Options(TrainingJobOptions):
    """The table `[azure-ml]`."""

    source: str = Field(default="azure-ml", min_length=1, max_length=256, description="The events' `source`.")
