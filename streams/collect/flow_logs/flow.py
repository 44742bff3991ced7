"""A flow as any cloud reports it: how many bytes went from one end to the other, and which end reported it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_PLACE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Place(NamedTuple):
    """Region and zone; empty where they are not known."""

    region: str = ""
    zone: str = ""


class FlowEnd(NamedTuple):
    """One end: its names, the most exact first, and its address as the packets had it.

    `pod` is "namespace/name", `is_cloud_service` that it is the provider's own.
    """

    names: tuple[str, ...]
    address: str
    place: Place = Place()
    pod: str = ""
    is_cloud_service: bool = False


class Flow(NamedTuple):
    """Bytes from `source` to `destination` between two instants.

    `direction` is that of the end that reports it; empty where the log does not say. `reporter` names the interface and
    the machine of that end. `way` is the path that the log itself tells, in the words of `network` events.
    """

    start_ms: int
    end_ms: int
    bytes: int
    source: FlowEnd
    destination: FlowEnd
    direction: str = ""
    reporter: tuple[str, ...] = ()
    place: Place = Place()
    way: str = ""


@lru_cache(10_000)
def place(region: str, zone: str) -> Place:
    """A place without what is no name of one."""
    return Place(region if _PLACE.match(region) else "", zone if _PLACE.match(zone) else "")
