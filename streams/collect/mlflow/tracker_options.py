"""The options of collectors of trackers: of `trainfare collect mlflow`, and of others whose runs are like MLflow's."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import ClassVar

from pydantic import Field, field_validator

from schemas.events import PRICE_FIELDS
from streams.collect.options import CollectorOptions


class TrackerOptions(CollectorOptions):
    """What is made of runs, wherever they are tracked."""

    tracker: ClassVar[str]  #: labels begin with this name

    own_jobs: bool = Field(
        default=True, description="Whether a run that names no trainfare.job_id is a job of its own."
    )
    gpus: float = Field(
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
    fields: dict[str, str] = Field(default={}, description="Price fields of all runs, e.g. cluster.")
    source: str = Field(min_length=1, max_length=256, description="The events' `source`.")

    @field_validator("fields")
    @classmethod
    def _are_price_fields(cls, fields: dict[str, str]) -> dict[str, str]:
        for name in fields:
            if name not in PRICE_FIELDS:
                raise ValueError(
                    f"{name[:80]!r} is no price field, expected one of {', '.join(PRICE_FIELDS)}"
                )
        return fields

    @property
    def since_ms(self) -> int | None:
        """Return `since` in ms since 1970; a time without a zone is UTC."""
        if self.since is None:
            return None
        at = self.since if isinstance(self.since, datetime) else datetime.combine(self.since, time())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
