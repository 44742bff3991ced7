"""What the options of all collectors have in common."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from schemas.durations import DAY_MS
from schemas.events import PRICE_FIELDS
from schemas.field_values import fault_of_value
from schemas.wire import PricedWire


def _are_price_fields(fields: dict[str, str]) -> dict[str, str]:
    if unknown := fields.keys() - set(PRICE_FIELDS):
        raise ValueError(
            f"{min(unknown)[:80]!r} is no price field, expected one of {', '.join(PRICE_FIELDS)}"
        )
    for name, value in fields.items():
        # An event with such a value is a dead letter, and what it reports costs nothing.
        if fault := fault_of_value(PricedWire, name, value):
            raise ValueError(fault)
    return fields


#: Price fields of all that a collector reports.
PriceFields: TypeAlias = Annotated[dict[str, str], AfterValidator(_are_price_fields)]


def _instant_ms(at: datetime | date) -> int:
    at = at if isinstance(at, datetime) else datetime.combine(at, time())
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


class CollectorOptions(BaseModel):
    """A table of the configuration file; a key that is not known is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: float = Field(default=15.0, ge=1, le=3600, description="Seconds between two polls.")

    @property
    def interval_ms(self) -> int:
        """The interval in ms."""
        return round(self.interval_s * 1000)

    def without_files(self) -> Self:
        """The same options for a poll that must store nothing."""
        return self


class SinceOptions(CollectorOptions):
    """Of a collector that leaves out what was before an instant."""

    since: datetime | date | None = None

    def begin_ms(self, now_ms: int) -> int:
        """`since` in ms since 1970, a time without a zone being UTC; by default the UTC day of `now_ms`."""
        return now_ms // DAY_MS * DAY_MS if self.since is None else _instant_ms(self.since)
