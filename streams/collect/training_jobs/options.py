"""The options that the collectors of training jobs have in common."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from streams.collect.files.options import FileOptions
from streams.collect.options import PriceFields
from streams.prices.instance_gpus import parsed

_DIMENSIONS: Final = ("owner", "team", "project", "experiment")


class TrainingJobOptions(FileOptions):
    """Files with answers of the API, or a command that prints them."""

    files: list[str] = Field(
        default=[], max_length=1_000, description="Files and patterns; `--files` adds to them."
    )
    command: list[str] = Field(
        default=[], max_length=100, description="A command that prints the answers, instead of files."
    )
    timeout_s: float = Field(default=120.0, gt=0, le=600, description="How long the command may take.")
    max_output_mib: int = Field(default=64, ge=1, le=256, description="How much it may answer, MiB.")
    instance_gpus: dict[str, str] = Field(
        default={},
        description="Type of instance (or compute) -> its GPUs, e.g. 8xH100, where they are not known.",
    )
    tags: dict[str, str] = Field(
        default={name: name for name in _DIMENSIONS},
        description="owner, team, project, experiment -> the tag or label that holds it.",
    )
    price_fields: PriceFields = Field(default={}, description="Price fields of all jobs, e.g. cluster.")
    job_id_prefix: str = Field(default="", max_length=64, description="Before each job's id.")

    @field_validator("instance_gpus")
    @classmethod
    def _are_gpus(cls, given: dict[str, str]) -> dict[str, str]:
        for text in given.values():
            parsed(text)
        return given

    @field_validator("tags")
    @classmethod
    def _are_dimensions(cls, given: dict[str, str]) -> dict[str, str]:
        if unknown := given.keys() - set(_DIMENSIONS):
            raise ValueError(f"{min(unknown)[:80]!r} is none of {', '.join(_DIMENSIONS)}")
        return given

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.files) == bool(self.command):
            raise ValueError("name files, or a command: one of them")
        return self
