"""The options of `trainfare collect vertex-ai`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.training_jobs.options import TrainingJobOptions


class Options(TrainingJobOptions):
    """The table `[vertex-ai]`."""

    source: str = Field(
        default="vertex-ai", min_length=1, max_length=256, description="The events' `source`."
    )
