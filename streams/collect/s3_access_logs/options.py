"""The options of `trainfare collect s3-access-logs`."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streams.collect.files.options import FileOptions
from streams.collect.s3_access_logs.patterns import pattern_of

_ASKED: Final = ("bucket", "key", "requester", "user_agent")
_STRICT: Final = ConfigDict(extra="forbid", frozen=True)


class RequestRule(BaseModel):
    """Whose a request is: `*` stands for anything, `{job_id}` for the job's id in it."""

    model_config = _STRICT

    bucket: str = Field(default="", max_length=512, description="The bucket.")
    key: str = Field(default="", max_length=2_048, description="The object's key, e.g. runs/{job_id}/*.")
    requester: str = Field(
        default="", max_length=2_048, description="Who asks, e.g. arn:aws:sts::*:assumed-role/train/{job_id}."
    )
    user_agent: str = Field(default="", max_length=2_048, description="The program, e.g. *app/{job_id}*.")
    job_id: str = Field(default="", max_length=200, description="The job, where no pattern names it.")

    @field_validator(*_ASKED)
    @classmethod
    def _is_pattern(cls, text: str) -> str:
        if text:
            pattern_of(text)
        return text

    @model_validator(mode="after")
    def _names_one_job(self) -> Self:
        patterns = [getattr(self, name) for name in _ASKED]
        named = sum("{job_id}" in text for text in patterns) + bool(self.job_id)
        if named != 1 or not any(patterns):
            raise ValueError(
                "a rule has patterns, and names the job once: by job_id, or by {job_id} in one of them"
            )
        return self


class Bucket(BaseModel):
    """What the log does not say of a bucket."""

    model_config = _STRICT

    region: str = Field(default="", max_length=256, description="Its region.")
    storage_class: str = Field(default="", max_length=256, description="The class of its objects.")


class Options(FileOptions):
    """The table `[s3-access-logs]`."""

    rules: list[RequestRule] = Field(
        default=[], max_length=1_000, description="Whose requests are: the first rule that fits counts."
    )
    allocations_file: Path | None = Field(
        default=None,
        description="File of allocations, for requests that no rule fits: by the address of the node.",
    )
    node_aliases: dict[str, str] = Field(
        default={}, description="Address -> node, as the allocations name it."
    )
    buckets: dict[str, Bucket] = Field(default={}, description="Region and storage class of buckets.")
    source: str = Field(
        default="s3-access-logs", min_length=1, max_length=256, description="The events' `source`."
    )
