"""The options of `trainfare collect aws-flow-logs`."""

from __future__ import annotations

from pydantic import Field, field_validator

from streams.collect.flow_logs.aws.columns import Columns
from streams.collect.flow_logs.options import FlowLogOptions


class Options(FlowLogOptions):
    """The table `[aws-flow-logs]`."""

    format: str = Field(
        default="",
        max_length=4_096,
        description="The log's format, where files have no header, as AWS writes it.",
    )
    source: str = Field(
        default="aws-flow-logs", min_length=1, max_length=256, description="The events' `source`."
    )

    @field_validator("format")
    @classmethod
    def _names_fields(cls, text: str) -> str:
        if text:
            Columns.of(text)
        return text
