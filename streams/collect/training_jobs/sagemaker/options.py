"""The options of `trainfare collect sagemaker`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.training_jobs.options import TrainingJobOptions


class Options(TrainingJobOptions):
    """The table `[sagemaker]`."""

    source: str = Field(
        default="sagemaker", min_length=1, max_length=256, description="The events' `source`."
    )
