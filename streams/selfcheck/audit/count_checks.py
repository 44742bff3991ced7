"""Checks that every record is accounted for: counts in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streams.selfcheck.audit.facts import Flows, Letters
from streams.selfcheck.audit.verdict import (
    BOOKS,
    CHAIN,
    INTAKE,
    LETTERS,
    RECOUNT,
    AuditFinding,
    Book,
    findings,
)
from streams.selfcheck.change_chain import Seal


def books(rows: Sequence[Book]) -> list[AuditFinding]:
    """Check that every record counts exactly once, and that no more are counted than the log has offsets."""

    def faults() -> Iterable[AuditFinding]:
        for row in rows:
            if row.balance:
                kinds = f"{row.applied} applied + {row.unattributed} unattributed + {row.duplicate} duplicate + {row.too_late} too late"
                yield AuditFinding(
                    BOOKS,
                    row.name,
                    str(row.records_in),
                    str(row.records_in - row.balance),
                    ok=False,
                    detail=f"{row.records_in} records came in, but {kinds} + {row.dead_lettered} dead-lettered are "
                    f"{row.records_in - row.balance}: {abs(row.balance)} are "
                    f"{'not accounted for' if row.balance > 0 else 'accounted for twice'}; {RECOUNT}",
                )
            elif row.records_in > row.next - row.first:
                yield AuditFinding(
                    BOOKS,
                    row.name,
                    f"at most {row.next - row.first}",
                    str(row.records_in),
                    ok=False,
                    detail=f"offsets {row.first} to {row.next - 1} hold {row.next - row.first} records at most, "
                    f"{row.records_in} were counted: some were metered twice; {RECOUNT}",
                )

    total = sum(row.records_in for row in rows)
    return findings(
        BOOKS, faults(), "all partitions", f"{total} records in {len(rows)} partitions are accounted for"
    )


def intake(rows: Sequence[Flows]) -> list[AuditFinding]:
    """Check that every fetched record is accounted for, and that the shard counted what it folded."""

    def faults() -> Iterable[AuditFinding]:
        for row in rows:
            went = row.folded + row.trimmed + row.not_mine + row.given_back + row.waiting
            if went != row.fetched:
                yield AuditFinding(
                    INTAKE,
                    row.name,
                    str(row.fetched),
                    str(went),
                    ok=False,
                    detail=f"{row.fetched} records were fetched, but {row.folded} folded + {row.trimmed} trimmed + "
                    f"{row.not_mine} not mine + {row.given_back} given back + {row.waiting} waiting are {went}; "
                    "restart this worker: it reads again from its snapshot",
                )
            elif row.counted is not None and row.counted != row.folded_here:
                yield AuditFinding(
                    INTAKE,
                    row.name,
                    str(row.folded_here),
                    str(row.counted),
                    ok=False,
                    detail=f"{row.folded_here} records were folded since the shard is here, its books grew by "
                    f"{row.counted}; restart this worker: it reads again from its snapshot",
                )

    total = sum(row.fetched for row in rows)
    return findings(INTAKE, faults(), "this worker", f"{total} fetched records went where they should")


def dead_letters(rows: Sequence[Letters]) -> list[AuditFinding]:
    """Check that every refused record has a reason, and a row unless it was sampled out."""

    def faults() -> Iterable[AuditFinding]:
        for row in rows:
            if row.counted != row.refused:
                yield AuditFinding(
                    LETTERS,
                    row.name,
                    str(row.refused),
                    str(row.counted),
                    ok=False,
                    detail=f"the books have {row.refused} dead letters, `dead_letter_counts` has {row.counted} by reason",
                )
            elif row.rows != row.stored:
                gone = row.stored - row.rows
                what = f"{gone} are lost" if gone > 0 else f"{-gone} are nobody's"
                yield AuditFinding(
                    LETTERS,
                    row.name,
                    str(row.stored),
                    str(row.rows),
                    ok=False,
                    detail=f"of {row.refused} dead letters {row.stored} were stored, `dead_letters` has {row.rows} "
                    f"below the offset of the books: {what}; the records themselves are in the log",
                )

    total, rest = sum(row.refused for row in rows), sum(row.counted - row.stored for row in rows)
    return findings(LETTERS, faults(), "all partitions", f"{total} dead letters, {rest} of them sampled out")


def chain(
    fault: tuple[int, str] | None, seals: Sequence[Seal], noted: Sequence[Seal] = (), waiting: int = 0
) -> list[AuditFinding]:
    """Check that the audit trail is what was sealed, and has what was noted of it elsewhere.

    The newest seal is said, so that it can be noted: rows that are taken from the end with their seals are missed by it alone.
    `waiting`: changes after the last seal.
    """
    known = set(seals)
    faults = [
        AuditFinding(
            CHAIN,
            f"offset {each.offset}",
            "as noted",
            "the noted hash is not in the chain",
            ok=False,
            detail=f"the hash {each.hash[:16]}... that was noted of offset {each.offset} is not in the chain: changes were taken from "
            "its end, or it was made anew; compare with a backup, or with the topic `controls`",
        )
        for each in noted
        if each not in known
    ]
    if fault is not None:
        offset, what = fault
        detail = f"{what}: offset {offset} of `changes` is not what was sealed; compare with a backup, or with the topic `controls`"
        faults.append(AuditFinding(CHAIN, f"offset {offset}", "as sealed", what, ok=False, detail=detail))
    newest = f"; note {seals[-1].offset}:{seals[-1].hash}" if seals else ""
    later = f", {waiting} later without a seal so far" if waiting else ""
    return findings(
        CHAIN, faults, "audit trail", f"{len(seals)} changes are as they were sealed{later}{newest}"
    )
