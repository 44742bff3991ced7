"""Runs the audit's statements and returns their rows as named values.

All calls block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from schemas.durations import DAY_S, HOUR_S
from schemas.reasons import OUTCOMES
from schemas.tables import KEYS
from sinks.clickhouse.damage import SET_ASIDE, LostPart
from sinks.meta import MINUTES_KEPT_FROM
from streams.selfcheck.audit import count_checks, ledger_checks, snapshot_checks, sql
from streams.selfcheck.audit.facts import (
    Costs,
    HiddenJob,
    LedgerTotals,
    Letters,
    MinuteSum,
    MonthSum,
    NodeMinute,
    SampledTime,
    SnapshotHead,
    Twins,
    WallClock,
)
from streams.selfcheck.audit.verdict import AuditFinding, Book
from streams.selfcheck.canary.plan import EXPECTED_NANO, RUN_MS
from streams.selfcheck.change_chain import COLUMNS, ROWS_SQL, SEALS_SQL, WAITING_SQL, Seal, broken_at
from streams.selfcheck.recount.recount import VALUES, Key, Row, Span, StoredLedger

#: Runs a read-only statement with parameters; returns rows as objects.
Ask = Callable[[str, Mapping[str, object]], list[dict[str, Any]]]

LEDGERS: Final = ("job_minutes", "node_minutes")
_NODE_MINUTES: Final = 10_000
_CHANGES_AT_ONCE: Final = 10_000
#: Of which the keys are compared by one statement: it keeps some hundred bytes of each.
_ROWS_AT_ONCE: Final = 1_000_000
_EXAMPLES: Final = 3
_MINUTES_OF_DAY: Final = 1_440
#: Ledger rows are read in pieces of this many seconds of event time.
_PIECE_S: Final = 6 * HOUR_S


class Stand(NamedTuple):
    """The position of a shard's tables: offsets and version of its record accounting, and how far open attempts are accrued."""

    ends: dict[str, int]  # by topic
    version: int
    paid_ms: int


def books(ask: Ask, shards: Sequence[int] = ()) -> list[Book]:
    """The stored record accounting of these shards' partitions (none given: of all)."""
    names = ("topic", "partition", "first", "next", "records_in", *OUTCOMES, "trimmed")
    return [Book(**{name: row[name] for name in names}) for row in ask(sql.BOOKS, {"shards": list(shards)})]


def dead_letters(ask: Ask, shards: Sequence[int] = ()) -> list[Letters]:
    """Dead letters as of the stored record accounting."""
    return [
        Letters(f"{r['topic']}/{r['partition']}", r["refused"], r["counted"], r["stored"], r["rows"])
        for r in ask(sql.LETTERS, {"shards": list(shards)})
    ]


def costs(ask: Ask, shards: Sequence[int] = (), since: int = 0, *, current: bool = True) -> list[Costs]:
    """The recomputed ledger rows; `current` ones, or all written after the version `since`."""
    found = []
    for table in LEDGERS:
        row = ask(sql.costs(table, current=current), {"shards": list(shards), "since": since})[0]
        counts = (row["rows"], row["wrong"], row["impossible"], row["unknown"])
        found.append(Costs(table, *counts, tuple(row["examples"])))
    return found


def twins(ask: Ask, shards: Sequence[int] = (), since: int = 0) -> list[Twins]:
    """Keys of the ledgers with two different rows of one version, looked for in spans of about a million rows."""
    found = []
    for table in LEDGERS:
        asked = {"shards": list(shards), "since": since}
        keys, examples = 0, list[str]()
        days = [(row["day_s"], row["rows"]) for row in ask(sql.days(table), asked)]
        for from_s, until_s in spans_of(days, _ROWS_AT_ONCE):
            span = {**asked, "from_s": from_s, "until_s": until_s}
            if ask(sql.suspected_twins(table), span)[0]["keys"]:
                row = ask(sql.twins(table), span)[0]
                keys += row["keys"]
                examples += row["examples"]
        found.append(Twins(table, keys, tuple(examples[:_EXAMPLES])))
    return found


def spans_of(days: Sequence[tuple[int, int]], rows_at_once: int) -> Iterator[tuple[int, int]]:
    """Spans [from, until) in whole minutes (s since 1970) of at most about `rows_at_once` rows: days together, or parts of one.

    `days`: the second at which each begins and its rows, in order.
    """
    waiting: tuple[int, int, int] | None = None  # from, until, rows
    for day_s, rows in days:
        if waiting is not None and waiting[2] + rows <= rows_at_once:
            waiting = (waiting[0], day_s + DAY_S, waiting[2] + rows)
            continue
        if waiting is not None:
            yield waiting[:2]
            waiting = None
        if rows <= rows_at_once:
            waiting = (day_s, day_s + DAY_S, rows)
            continue
        parts = min(-(-rows // rows_at_once), _MINUTES_OF_DAY)
        ends = [day_s + 60 * (part * _MINUTES_OF_DAY // parts) for part in range(parts + 1)]
        yield from pairwise(ends)
    if waiting is not None:
        yield waiting[:2]


def parts(ask: Ask) -> list[LostPart]:
    """The parts of our tables that the engine has detached."""
    return [LostPart(row["table"], row["name"], row["reason"] or "") for row in ask(SET_ASIDE, {})]


def totals(ask: Ask) -> LedgerTotals:
    """The sums of the cost of all jobs, and what views exclude of them."""
    row = ask(sql.TOTALS, {})[0]
    most = {"most_nano": 2 * EXPECTED_NANO, "most_gpu_milli_ms": 2 * RUN_MS * 1_000}
    hidden = ask(sql.NO_CANARY, most)
    return LedgerTotals(**row, hidden=tuple(HiddenJob(**each) for each in hidden))


def sums(ask: Ask) -> tuple[list[MonthSum], list[MonthSum]]:
    """What the meter booked by shard and month, and what the ledger's rows add up to now."""
    names = ("shard", "month", "quantity", "cost_nano", "version", "gpu_milli_ms")
    booked = [MonthSum(row["table_name"], *(row[name] for name in names[:-1])) for row in ask(sql.SUMS, {})]
    stored = [
        MonthSum(table, *(row[name] for name in names))
        for table in LEDGERS
        for row in ask(sql.summed(table), {})
    ]
    return booked, stored


def hours(ask: Ask) -> list[MonthSum]:
    """What the hours of jobs and of nodes add up to by shard and month."""
    names = ("table_name", "shard", "month", "quantity", "cost_nano", "version", "gpu_milli_ms")
    return [MonthSum(*(row[name] for name in names)) for row in ask(sql.HOURS, {})]


def wall_clock(ask: Ask) -> list[WallClock]:
    """The wall-clock time of the ended jobs of each shard, by attempts and by hours."""
    return [WallClock(**row) for row in ask(sql.WALL_CLOCK, {})]


def sampled(ask: Ask) -> list[SampledTime]:
    """The sampled GPU-time of the ended jobs of each shard and month, by minutes and by hours."""
    return [SampledTime(**row) for row in ask(sql.SAMPLED, {})]


def minutes_kept_from(ask: Ask) -> int:
    """The first month (202611) whose minutes are kept, 0 if all are; ask after the minutes, never before."""
    return int(of_store(ask, MINUTES_KEPT_FROM) or 0)


def nodes(ask: Ask) -> tuple[list[NodeMinute], int]:
    """The minutes of the last whole hour of nodes that do not balance, and how many were checked."""
    newest_s = ask(sql.NEWEST_MINUTE, {})[0]["second"]
    # The newest minute is still accruing, for jobs and nodes at different checkpoints.
    span = {"since_s": max(newest_s - HOUR_S, 0), "until_s": newest_s}
    rows = ask(sql.NODES, {**span, "most": _NODE_MINUTES})
    wrong = [
        NodeMinute(r["node"], r["minute"], r["idle_usd"], r["free_usd"], r["rows"])
        for r in rows
        if r["wrong"]
    ]
    return wrong, len(rows)


def minutes(ask: Ask, jobs: Sequence[str], since: int, until: int) -> dict[tuple[str, int], MinuteSum]:
    """The ledger's minutes [since, until) by (job, minute); a minute with a capped cost counts as newer."""
    bound = {"jobs": list(jobs), "since_s": since * 60, "until_s": until * 60}
    return {
        (r["job_id"], r["second"] // 60): MinuteSum(
            int(r["cost_nano"]), r["rows"], 2**64 if r["capped"] else r["newest"]
        )
        for r in ask(sql.MINUTES, bound)
    }


def snapshots(ask: Ask, shards: Sequence[int] = ()) -> list[SnapshotHead]:
    """The stored versions of shards' states."""
    return [
        SnapshotHead(r["shard"], r["version"], r["parent"], bool(r["whole"]), r["root"])
        for r in ask(sql.SNAPSHOTS, {"shards": list(shards)})
    ]


def stored_findings(ask: Ask, noted: Sequence[Seal] = ()) -> tuple[list[Book], list[AuditFinding]]:
    """Run all checks that need only the tables, over all shards; `noted`: seals of the audit trail that were noted elsewhere."""
    known = books(ask)
    # Before the rows: what a worker writes while they are summed is then seen to be newer, and left to the next audit.
    versions = {number: stand.version for number, stand in shard_positions(ask).items()}
    booked, stored = sums(ask)
    summed_hours, sampled_time, total = hours(ask), sampled(ask), totals(ask)
    kept_from = minutes_kept_from(ask)
    return known, [
        *count_checks.books(known),
        *count_checks.dead_letters(dead_letters(ask)),
        *ledger_checks.costs(costs(ask)),
        *ledger_checks.totals(total, kept_from),
        *ledger_checks.sums(booked, stored, versions, kept_from),
        *ledger_checks.hours(stored, summed_hours, versions, kept_from),
        *ledger_checks.wall_clock(wall_clock(ask), versions),
        *ledger_checks.sampled(sampled_time, versions, kept_from),
        *ledger_checks.nodes(*nodes(ask)),
        *ledger_checks.writers(twins(ask)),
        *snapshot_checks.snapshots(snapshots(ask), ()),
        *chain(ask, noted),
    ]


def chain(ask: Ask, noted: Sequence[Seal] = ()) -> list[AuditFinding]:
    """Check the audit trail against its chain of hashes."""
    # The seals first: what is sealed meanwhile is left to the next audit.
    seals = [Seal(row["offset"], row["hash"]) for row in _paged(ask, SEALS_SQL)]
    rows = ([row[name] for name in COLUMNS] for row in _paged(ask, ROWS_SQL))
    fault = broken_at(rows, seals)
    (waiting,) = ask(WAITING_SQL, {"after": seals[-1].offset if seals else -1})
    return count_checks.chain(fault, seals, noted, waiting["changes"])


def _paged(ask: Ask, statement: str) -> Iterator[Any]:
    after = -1
    while found := ask(statement, {"after": after, "until": 2**62, "limit": _CHANGES_AT_ONCE}):
        yield from found
        after = found[-1]["offset"]


def shard_positions(ask: Ask) -> dict[int, Stand]:
    """The position of each shard with record accounting."""
    found: dict[int, Stand] = {}
    for row in ask(sql.BOOKS, {"shards": []}):
        stand = found.setdefault(row["partition"], Stand({}, row["version"], row["time_ms"]))
        stand.ends[row["topic"]] = row["next"]
    return found


def ledger(ask: Ask, table: str, shard: int, span: Span, version: int) -> StoredLedger:
    """A shard's rows of a span as of a version."""
    rows: dict[Key, Row] = {}
    newer: set[Key] = set()
    statement = sql.ledger(table, KEYS[table], VALUES[table])
    reach = ask(sql.reach(table), {"shard": shard})[0]
    begin_s = max(-(-span.from_ms // 1000), reach["first_s"])
    end_s = min(-(-span.until_ms // 1000), reach["last_s"] + 1)
    for since_s in range(begin_s, end_s, _PIECE_S):
        until_s = min(since_s + _PIECE_S, end_s)
        for row in ask(statement, {"shard": shard, "since_s": since_s, "until_s": until_s}):
            key = tuple(row[f"{name}_"] for name in KEYS[table])
            if row["version_"] > version:
                newer.add(key)
            else:
                rows[key] = tuple(row[f"{name}_"] for name in VALUES[table])
    return StoredLedger(rows, frozenset(newer))


def older(ask: Ask, shard: int, before_ms: int) -> list[str]:
    """The jobs and nodes of a shard that were first seen before an instant."""
    return [row["name"] for row in ask(sql.OLDER, {"shard": shard, "before_ms": before_ms})]


def of_store(ask: Ask, key: str) -> str | None:
    """A metadata value of the store."""
    values = [row["value"] for row in ask(sql.META, {"key": key})]
    return str(values[0]) if values else None
