"""The options of `trainfare collect azure-flow-logs`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.flow_logs.options import FlowLogOptions


class Options(FlowLogOptions):
    """The table `[azure-flow-logs]`."""

    source: str = Field(
        default="azure-flow-logs", min_length=1, max_length=256, description="The events' `source`."
    )
