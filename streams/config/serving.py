"""The settings of the log of `trainfare serve`; part of `streams.config.settings`."""

from __future__ import annotations

from pydantic import Field

from streams.config.live import Group


class ServeSettings(Group):
    """How long `trainfare serve` keeps its log. Only what is in the store's snapshots is dropped, by whole files of up to 64 MiB or a day."""

    retention_days: int = Field(
        default=30,
        ge=0,
        le=36_500,
        description="Events are dropped so many days after they were taken; `0`: never. Prices and controls stay.",
    )
    retention_bytes: int = Field(
        default=20 * 2**30,
        ge=0,
        description="The oldest events are dropped when the log is larger; `0`: never.",
    )
