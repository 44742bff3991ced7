"""Names reserved for the meter itself: what lists of users' jobs exclude, and what nobody else may be called.

The views of ClickHouse repeat `USERS_JOBS` word for word; tests/sinks/test_views_canary.py compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

#: The canary's price SKU, its cloud and the source of its events; nobody else's names may begin with it.
CANARY: Final = "trainfare-canary"
#: Prefix of its job ids.
CANARY_JOB_PREFIX: Final = "trainfare-canary."
#: The SQL condition on rows of users' jobs. It needs no proof: no other job with the prefix gets into the tables.
USERS_JOBS: Final = f"NOT startsWith(job_id, '{CANARY_JOB_PREFIX}')"
#: What tables show beside the names of teams, projects, owners and experiments, in any case.
GROUPS: Final = frozenset({"idle", "unallocated", "unmetered", "overcommitted", "(none)"})
#: Shards from this number on are those of backfills: no partition of Kafka has such a number, and no worker owns them.
FIRST_BACKFILL_SHARD: Final = 32_768

_NAMES: Final = ("source", "job_id", "node", "sku", "cloud")
#: The fields of groups.
GROUPED: Final = frozenset({"owner", "team", "project", "experiment"})


class ReservedName(NamedTuple):
    """A field with a reserved name, and what is expected instead."""

    field: str
    value: str
    expected: str


def is_canary_job(job_id: str) -> bool:
    """Whether a stored job is the canary's."""
    return job_id.startswith(CANARY_JOB_PREFIX)


def reserved_in(record: Struct | Mapping[str, Any]) -> ReservedName | None:
    """The first reserved name in a record of any topic; None if there is none."""
    get = record.get if isinstance(record, Mapping) else lambda field: getattr(record, field, None)
    for field, value in _names_of(get):
        if isinstance(value, str) and value.startswith(CANARY):
            expected = f"another name: those that begin with {CANARY} are the meter's own"
            return ReservedName(field, value, expected)
    for field in sorted(GROUPED):
        value = get(field)
        if isinstance(value, str) and value.strip().lower() in GROUPS:
            listed = ", ".join(sorted(GROUPS))
            return ReservedName(
                field, value, f"another name: tables show {listed} for cost that is no group's"
            )
    return None


def _names_of(get: Any) -> Iterator[tuple[str, object]]:
    for field in _NAMES:
        yield field, get(field)
    nodes = get("nodes")
    if isinstance(nodes, Mapping):
        for name in nodes:
            yield "nodes (a name in it)", name
