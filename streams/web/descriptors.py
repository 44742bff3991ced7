"""Raises the limit of open files, and reserves some of them for everything but the web."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger(__name__)

#: Reserved for Kafka, ClickHouse and the engine's files.
KEPT: Final = 256
#: Evicted connections hold their descriptors for a moment longer.
PASSING: Final = 64
#: The web gets this many even if the limit leaves none, so that operators can still query health.
LEAST: Final = 16
#: Requested if the hard limit is "unlimited", which not every system accepts as a soft one.
_ENOUGH: Final = 65_536


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as fault:
            logger.warning(
                "limit of open files could not be raised",
                extra={
                    "limit": soft,
                    "reason": str(fault),
                    "runbook": "docs/access.md#limits-of-clients",
                },
            )
    found = limit()
    logger.info("limit of open files", extra={"limit": found})
    return found


def limit() -> int:
    """The soft limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def connections_within(descriptors: int, wanted: int) -> int:
    """How many connections the web may hold: at most `wanted`, with `KEPT` descriptors left."""
    return min(wanted, max(descriptors - KEPT - PASSING, LEAST))
