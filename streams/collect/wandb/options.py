"""The options of `trainfare collect wandb`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from streams.collect.mlflow.tracker_options import TrackerOptions


class Options(TrackerOptions):
    """The table `[wandb]`."""

    tracker: ClassVar[str] = "wandb"

    folders: list[Path] = Field(
        default=[Path("wandb")], min_length=1, description="Folders in which W&B keeps the files of runs."
    )
    max_file_mib: int = Field(
        default=256, ge=1, le=4096, description="How large the file of a run may be, MiB."
    )
    source: str = Field(default="wandb", min_length=1, max_length=256, description="The events' `source`.")
