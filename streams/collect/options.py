"""What the options of all collectors have in common."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field


class CollectorOptions(BaseModel):
    """A table of the configuration file; a key that is not known is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: float = Field(default=15.0, ge=1, le=3600, description="Seconds between two polls.")

    @property
    def interval_ms(self) -> int:
        """Return the interval in ms."""
        return round(self.interval_s * 1000)

    def without_files(self) -> Self:
        """Return the same options for a poll that must store nothing."""
        return self
