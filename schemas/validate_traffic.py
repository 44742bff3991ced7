"""Converts records of network and storage traffic to events."""

from schemas.checks import check_job_id, check_time
from schemas.events import TrafficEvent
from schemas.refusal import refuse_missing
from schemas.units import BYTES_PER_MIB, Unit
from schemas.wire import NetworkWire, StorageWire


def network_event(raw: NetworkWire, newest_allowed_ms: int) -> TrafficEvent:
    """The event of a record of `network`.

    Raises:
        RefusedError: It is invalid.
    """
    match: dict[str, str] = {"path": raw.path or "unclassified"}
    if raw.direction is not None:
        match["direction"] = raw.direction
    if raw.dst_region is not None:
        match["dst_region"] = raw.dst_region
    return _event("network", raw, ((Unit.bytes, raw.bytes),), match, newest_allowed_ms)


def storage_event(raw: StorageWire, newest_allowed_ms: int) -> TrafficEvent:
    """The event of a record of `storage`.

    Raises:
        RefusedError: It is invalid.
    """
    match: dict[str, str] = {"op": raw.op}
    if raw.storage_class is not None:
        match["storage_class"] = raw.storage_class
    return _event("storage", raw, _storage_amounts(raw), match, newest_allowed_ms)


def _storage_amounts(raw: StorageWire) -> tuple[tuple[Unit, int], ...]:
    """What the operation books; amounts that it does not book are ignored."""
    if raw.op == "stored":
        if raw.bytes is None:
            refuse_missing("bytes", "an integer, which `op` stored requires")
        return ((Unit.mib_ms, raw.bytes // BYTES_PER_MIB),)
    if raw.op in ("list", "delete"):
        if raw.requests is None:
            refuse_missing("requests", f"an integer, which `op` {raw.op} requires")
        return ((Unit.requests, raw.requests),)
    if raw.bytes is None:
        if raw.requests is None:
            refuse_missing("bytes", f"an integer, or one in `requests`, which `op` {raw.op} requires")
        return ((Unit.requests, raw.requests),)
    if raw.requests is None:
        return ((Unit.bytes, raw.bytes),)
    return ((Unit.bytes, raw.bytes), (Unit.requests, raw.requests))


def _event(
    topic: str,
    raw: NetworkWire | StorageWire,
    amounts: tuple[tuple[Unit, int], ...],
    match: dict[str, str],
    newest_allowed_ms: int,
) -> TrafficEvent:
    check_time(raw.time_ms, newest_allowed_ms)
    check_job_id(raw.job_id)
    if raw.cloud is not None:
        match["cloud"] = raw.cloud
    if raw.region is not None:
        match["region"] = raw.region
    return TrafficEvent(
        topic=topic,
        source=raw.source,
        id=raw.id,
        time_ms=raw.time_ms,
        job_id=raw.job_id,
        attempt=raw.attempt or 1,
        interval_ms=raw.interval_ms,
        amounts=amounts,
        match=match,
    )
