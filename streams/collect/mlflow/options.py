"""The options of `trainfare collect mlflow`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field

from streams.collect.http_source import Address
from streams.collect.mlflow.tracker_options import TrackerOptions


class Options(TrackerOptions):
    """The table `[mlflow]`."""

    tracker: ClassVar[str] = "mlflow"

    url: Address = Field(default="http://127.0.0.1:5000", description="URL of the tracking server.")
    token_file: Path | None = Field(default=None, description="File with a bearer token for the server.")
    experiments: list[str] = Field(
        default=["*"], min_length=1, description="Names of experiments that are read, with * and ?."
    )
    trainfare_url: Address | None = Field(
        default=None, description="URL of the worker whose costs are written back; none: no costs are."
    )
    trainfare_token_file: Path | None = Field(
        default=None, description="File with a token of that worker, of the scope read."
    )
    cost_interval_s: float = Field(
        default=60, ge=1, le=86_400, description="Seconds between two times that costs are written."
    )
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="How long an answer may take.")
    max_response_mib: int = Field(default=256, ge=1, le=4096, description="How large an answer may be, MiB.")
    source: str = Field(default="mlflow", min_length=1, max_length=256, description="The events' `source`.")

    def without_files(self) -> Self:
        """The same options for a poll that must store nothing, not in MLflow either."""
        return self.model_copy(update={"trainfare_url": None})
