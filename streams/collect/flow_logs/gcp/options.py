"""The options of `trainfare collect gcp-flow-logs`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.flow_logs.options import FlowLogOptions


class Options(FlowLogOptions):
    """The table `[gcp-flow-logs]`."""

    sample_ratio: float = Field(
        default=1.0,
        gt=0.001,
        le=1,
        description="The subnet's rate of sampled entries: bytes are divided by it.",
    )
    source: str = Field(
        default="gcp-flow-logs", min_length=1, max_length=256, description="The events' `source`."
    )
