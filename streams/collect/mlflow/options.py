"""The options of `trainfare collect mlflow`."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator

from schemas.events import PRICE_FIELDS
from streams.collect.http_source import checked_address
from streams.collect.options import CollectorOptions


class Options(CollectorOptions):
    """The table `[mlflow]`."""

    address: str = Field(default="http://127.0.0.1:5000", description="Address of the tracking server.")
    token_file: Path | None = Field(default=None, description="File with a bearer token for the server.")
    experiments: list[str] = Field(
        default=["*"], min_length=1, description="Names of experiments that are read, with * and ?."
    )
    own_jobs: bool = Field(
        default=True, description="Whether a run without the tag trainfare.job_id is a job of its own."
    )
    gpus: float = Field(
        default=0, ge=0, le=100_000, description="GPUs of a run without the tag trainfare.gpus."
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
    meter: str | None = Field(
        default=None, description="Address of the meter whose costs are written back; none: no costs are."
    )
    meter_token_file: Path | None = Field(
        default=None, description="File with a token of the meter, with the scope to read."
    )
    costs_s: float = Field(
        default=60, ge=1, le=86_400, description="Seconds between two times that costs are written."
    )
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="How long an answer may take.")
    answer_mib: int = Field(default=256, ge=1, le=4096, description="How large an answer may be, MiB.")
    source: str = Field(default="mlflow", min_length=1, max_length=256, description="The events' `source`.")

    @field_validator("address", "meter")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        return None if address is None else checked_address(address)

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

    def without_files(self) -> Self:
        """Return the same options for a poll that must store nothing, not in MLflow either."""
        return self.model_copy(update={"meter": None})
