"""Checks that a shard can be restored: its stored versions and offsets in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streams.selfcheck.audit.facts import CommittedPosition, SnapshotHead
from streams.selfcheck.audit.verdict import SNAPSHOTS, AuditFinding, findings


def snapshots(heads: Sequence[SnapshotHead], places: Sequence[CommittedPosition]) -> list[AuditFinding]:
    """Check that the newest snapshot of a shard can be restored, and that its offsets are in the log."""

    def faults() -> Iterable[AuditFinding]:
        for shard in sorted({head.shard for head in heads}):
            yield from _chain({head.version: head for head in heads if head.shard == shard}, shard)
        for place in places:
            if place.log_end is not None and place.next > place.log_end:
                yield AuditFinding(
                    SNAPSHOTS,
                    place.name,
                    f"at most {place.log_end}",
                    str(place.next),
                    ok=False,
                    detail=f"the snapshot awaits offset {place.next} of {place.name}, the log ends at {place.log_end}: "
                    "the topic was made anew, or records are gone; restore it, or meter into an empty store",
                )
            if place.committed is not None and place.committed > place.next:
                yield AuditFinding(
                    SNAPSHOTS,
                    place.name,
                    f"at most {place.next}",
                    str(place.committed),
                    ok=False,
                    detail=f"offset {place.committed} of {place.name} is committed, the snapshot awaits {place.next}: "
                    "something else commits for this consumer group",
                )

    shards = len({head.shard for head in heads})
    return findings(SNAPSHOTS, faults(), "all shards", f"the newest snapshots of {shards} shards are whole")


def _chain(heads: Mapping[int, SnapshotHead], shard: int) -> Iterable[AuditFinding]:
    """Yield what prevents the newest version from leading back to its root."""
    newest = version = max(heads)
    root = heads[newest].root
    while version:
        head = heads.get(version)
        if head is None or not head.whole or head.parent >= version:
            state = "is missing" if head is None else "is damaged"
            yield AuditFinding(
                SNAPSHOTS,
                f"shard {shard}",
                "a whole chain",
                f"version {version} {state}",
                ok=False,
                detail=f"the newest snapshot of shard {shard}, {newest}, needs version {version}, which {state}: a new "
                "owner begins with an older one and reads more of the log; keep the log until a newer one is whole",
            )
            return
        version = 0 if version == root else head.parent
