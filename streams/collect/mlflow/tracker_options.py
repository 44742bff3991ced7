"""The options of collectors of trackers: of `trainfare collect mlflow`, and of others whose runs are like MLflow's."""

from __future__ import annotations

from datetime import date, datetime
from typing import ClassVar

from pydantic import Field

from streams.collect.options import PriceFields, SinceOptions


class TrackerOptions(SinceOptions):
    """What is made of runs, wherever they are tracked."""

    tracker: ClassVar[str]  #: labels begin with this name

    standalone_runs: bool = Field(
        default=True, description="Whether a run that names no trainfare.job_id is a job of its own."
    )
    default_gpus: float = Field(
        default=0, ge=0, le=100_000, description="GPUs of a run that does not name trainfare.gpus."
    )
    quality: list[str] = Field(default=["*"], description="Metrics that are `quality`, with * and ?.")
    progress: list[str] = Field(
        default=["epoch", "tokens", "samples"], description="Metrics that are `progress`, with * and ?."
    )
    since: datetime | date | None = Field(
        default=None, description="What ran before is not counted; default: the UTC day of the first poll."
    )
    job_id_prefix: str = Field(
        default="", max_length=64, description="Before the id of each run that is a job of its own."
    )
    price_fields: PriceFields = Field(default={}, description="Price fields of all runs, e.g. cluster.")
    source: str = Field(min_length=1, max_length=256, description="The events' `source`.")
