"""Checks that the stored ledger agrees with the meter's state: sums in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from schemas.counting import how_many
from schemas.tables import JOB_HOURS, JOB_MINUTES, NODE_HOURS, NODE_MINUTES
from sinks.clickhouse.damage import LostPart
from streams.selfcheck.audit.facts import (
    Costs,
    HiddenJob,
    KnownMinutes,
    LedgerTotals,
    MinuteSum,
    MonthSum,
    NodeMinute,
    SampledTime,
    Twins,
    WallClock,
)
from streams.selfcheck.audit.verdict import (
    COSTS,
    HOURS,
    NODES,
    PARTS,
    RECOUNT,
    SUMS,
    TOTALS,
    WINDOWS,
    WRITERS,
    AuditFinding,
    findings,
)

#: A row's cost is rounded once, so it differs by at most half a nano-dollar from the curve that windows integrate.
_NANO_PER_ROW: Final = 0.5
#: Relative error of the windows, which are float64.
_SHARE: Final = 1e-12
#: A hundredth of a nano-dollar is floating-point noise.
_NOISE_NANO: Final = 0.01


def windows(
    known: Mapping[tuple[str, int], KnownMinutes], stored: Mapping[tuple[str, int], MinuteSum]
) -> list[AuditFinding]:
    """Check that the windows' minutes equal the ledger's, up to the rounding of each row to a nano-dollar.

    A minute that was rewritten since the windows were read is left to the next audit.
    """
    looked_at = 0

    def faults() -> Iterable[AuditFinding]:
        nonlocal looked_at
        for (job_id, minute), (cost_nano, version) in known.items():
            found = stored.get((job_id, minute), MinuteSum(0, 0, 0))
            if found.version > version:
                continue
            looked_at += 1
            allowed = _NANO_PER_ROW * found.rows + _SHARE * cost_nano + _NOISE_NANO
            if abs(found.cost_nano - cost_nano) > allowed:
                yield AuditFinding(
                    WINDOWS,
                    f"job {job_id}",
                    _usd(cost_nano),
                    _usd(found.cost_nano),
                    ok=False,
                    detail=f"minute {minute_name(minute)} of job {job_id} costs {_usd(cost_nano)} in the windows, "
                    f"{_usd(found.cost_nano)} in {how_many(found.rows, 'row')} of the ledger; {RECOUNT}",
                )

    found = list(faults())
    return findings(
        WINDOWS, found, "live jobs", f"{looked_at} minutes of jobs cost the same in windows and ledger"
    )


def costs(rows: Sequence[Costs]) -> list[AuditFinding]:
    """Check that each row's cost is its quantity times its price, rounded once."""

    def faults() -> Iterable[AuditFinding]:
        for row in rows:
            bad = {
                "cost something other than quantity x price": row.wrong,
                "are negative or lose more than they have": row.impossible,
                "name a price that `prices` lacks": row.unknown,
            }
            for what, count in bad.items():
                if count:
                    yield AuditFinding(
                        COSTS,
                        row.table,
                        "0 rows",
                        f"{how_many(count, 'row')}",
                        ok=False,
                        detail=f"{count} of {row.rows} rows of `{row.table}` {what}: "
                        f"{'; '.join(row.examples[:3])}; {RECOUNT}",
                    )

    total = sum(row.rows for row in rows)
    return findings(COSTS, faults(), "ledger", f"{total} rows cost what quantity x price says")


def totals(found: LedgerTotals, kept_from: int = 0) -> list[AuditFinding]:
    """Check that the total cost that views show, and what they exclude, equals that of the ledger's rows.

    Of their hours, if months of minutes were dropped. What views exclude must be no more than the canary can cost.
    """
    what, usd, canary_usd = (
        ("the rows of the ledger", found.ledger_usd, found.canary_ledger_usd)
        if not kept_from
        else ("its hours", found.hours_usd, found.canary_hours_usd)
    )
    excluded = f"${canary_usd} of {how_many(found.canary_jobs, 'job')} of the canary, which views leave out"
    fault = AuditFinding(
        TOTALS,
        "all jobs",
        usd,
        found.job_costs_usd,
        ok=False,
        detail=f"`job_costs` sums up to ${found.job_costs_usd} without {excluded}, {what} to ${usd}: rows of "
        "jobs that the table `jobs` lacks, or rows that changed while they were summed up",
    )
    adds_up = Decimal(usd) == Decimal(found.job_costs_usd) + Decimal(canary_usd)
    wrong = [] if adds_up else [fault]
    looked_at = f"both sums are ${usd}, with {excluded}"
    return findings(TOTALS, [*wrong, *map(_hidden, found.hidden)], "all jobs", looked_at)


def _hidden(job: HiddenJob) -> AuditFinding:
    return AuditFinding(
        TOTALS,
        job.job_id,
        "a run of the canary at most",
        f"${job.usd} and {job.gpu_milli_ms / 3_600_000_000:g} GPU-hours",
        ok=False,
        detail=f"views leave it out as a job of the canary, and it cost ${job.usd} for {job.gpu_milli_ms / 3_600_000_000:g} GPU-hours: "
        "somebody gave a job the canary's name before this version refused that; its rows are in `job_hours`",
    )


def sums(
    booked: Sequence[MonthSum], stored: Sequence[MonthSum], versions: Mapping[int, int], kept_from: int = 0
) -> list[AuditFinding]:
    """Check that a shard's rows of a month add up to what it booked.

    Months with rows newer than the shard's sums are left to the next audit. `versions`: by shard, the version of its
    record accounting and sums. A shard that an earlier release began has no sums. Of jobs, months before `kept_from` were
    dropped.
    """
    kept = {each.shard for each in booked}
    want = {each[:3]: each for each in booked if not _is_dropped(each, kept_from)}
    have = {each[:3]: each for each in stored if each.shard in kept and not _is_dropped(each, kept_from)}
    faults: list[AuditFinding] = []
    newer = 0
    for key in sorted(want.keys() | have.keys()):
        table, shard, month = key
        mine = want.get(key, MonthSum(*key, 0, 0, 0))
        found = have.get(key, MonthSum(*key, 0, 0, 0))
        if found.version > versions.get(shard, 0):
            newer += 1
        elif (mine.quantity, mine.cost_nano) != (found.quantity, found.cost_nano):
            faults.append(
                AuditFinding(
                    SUMS,
                    f"`{table}` shard {shard} month {month}",
                    _usd(mine.cost_nano),
                    _usd(found.cost_nano),
                    ok=False,
                    detail=f"shard {shard} booked {_usd(mine.cost_nano)} in month {month}, its rows in `{table}` add "
                    f"up to {_usd(found.cost_nano)} (quantity {found.quantity - mine.quantity:+d}): rows are lost, or "
                    "of an older copy of the store; `trainfare audit --recount FROM TO --repair` puts them back",
                )
            )
    unkept = len({each.shard for each in stored} - kept)
    said = f"{len(want) - newer} months of shards add up to what was booked"
    said += f", {newer} are being written" if newer else ""
    said += _dropped(kept_from)
    said += f"; {unkept} shards of an earlier version keep no sums" if unkept else ""
    return findings(SUMS, faults, "ledger", said)


def _is_dropped(each: MonthSum, kept_from: int) -> bool:
    return each.table in (JOB_MINUTES, JOB_HOURS) and each.month < kept_from


def _dropped(kept_from: int) -> str:
    """What to say of months whose minutes were dropped."""
    if not kept_from:
        return ""
    return f"; months before {kept_from // 100}-{kept_from % 100:02} have no minutes any more (minutes_retention_days)"


#: The table of hours that sums each table of minutes.
_HOURS_OF: Final = {JOB_MINUTES: JOB_HOURS, NODE_MINUTES: NODE_HOURS}


def hours(
    stored: Sequence[MonthSum], hours: Sequence[MonthSum], versions: Mapping[int, int], kept_from: int = 0
) -> list[AuditFinding]:
    """Check that the hours of jobs and of nodes of a shard and month have the cost and the GPU-time of its minutes.

    Months with rows newer than the shard's sums (`versions`, by shard) are left to the next audit; those before
    `kept_from` have no minutes any more.
    """
    mine_of = (each for each in stored if not _is_dropped(each, kept_from))
    minutes = {(_HOURS_OF[each.table], *each[1:3]): each for each in mine_of}
    have = {each[:3]: each for each in hours if not _is_dropped(each, kept_from)}
    faults: list[AuditFinding] = []
    newer = 0
    for table, shard, month in sorted(minutes.keys() | have.keys()):
        mine = minutes.get((table, shard, month), MonthSum(table, shard, month, 0, 0, 0))
        found = have.get((table, shard, month), MonthSum(table, shard, month, 0, 0, 0))
        if max(mine.version, found.version) > versions.get(shard, 0):
            newer += 1
        elif (mine.cost_nano, mine.gpu_milli_ms) != (found.cost_nano, found.gpu_milli_ms):
            faults.append(
                AuditFinding(
                    HOURS,
                    f"`{table}` shard {shard} month {month}",
                    _usd(mine.cost_nano),
                    _usd(found.cost_nano),
                    ok=False,
                    detail=f"the minutes of shard {shard} in month {month} cost {_usd(mine.cost_nano)}, its hours "
                    f"{_usd(found.cost_nano)} (GPU-time {found.gpu_milli_ms - mine.gpu_milli_ms:+d}): rows are lost; metering the log into a new store writes them again",
                )
            )
    said = f"the hours of {len(minutes.keys() | have.keys()) - newer} months of shards cost what their minutes cost"
    said += f", {newer} are being written" if newer else ""
    return findings(HOURS, faults, "ledger", said + _dropped(kept_from))


def wall_clock(rows: Sequence[WallClock], versions: Mapping[int, int]) -> list[AuditFinding]:
    """Check that the hours of ended jobs have the wall-clock time of their attempts."""
    faults = [
        AuditFinding(
            HOURS,
            f"wall-clock time of shard {row.shard}",
            f"{row.attempts_ms} ms",
            f"{row.hours_ms} ms",
            ok=False,
            detail=f"the attempts of ended jobs of shard {row.shard} have {row.attempts_ms} ms, their hours {row.hours_ms} "
            "ms: rows are lost; metering the log into a new store writes them again",
        )
        for row in rows
        if row.version <= versions.get(row.shard, 0) and row.attempts_ms != row.hours_ms
    ]
    total_h = sum(row.hours_ms for row in rows) // 3_600_000
    return findings(HOURS, faults, "ended jobs", f"{total_h} hours of ended jobs are those of their attempts")


def sampled(
    rows: Sequence[SampledTime], versions: Mapping[int, int], kept_from: int = 0
) -> list[AuditFinding]:
    """Check that the hours of ended jobs have the sampled and the productive GPU-time of their minutes of usage.

    Months with rows newer than the record accounting are left to the next audit; those before `kept_from` have no minutes
    any more.
    """
    looked_at = [row for row in rows if row.month >= kept_from and row.version <= versions.get(row.shard, 0)]
    faults = [
        AuditFinding(
            HOURS,
            f"sampled GPU-time of shard {row.shard} month {row.month}",
            f"{row.minutes_ms} ms",
            f"{row.hours_ms} ms",
            ok=False,
            detail=f"the minutes of ended jobs of shard {row.shard} in month {row.month} have {row.minutes_ms} ms of sampled "
            f"GPU-time, {row.minutes_productive_ms} of them productive, their hours {row.hours_ms} and "
            f"{row.hours_productive_ms}: rows are lost; metering the log into a new store writes them again",
        )
        for row in looked_at
        if (row.minutes_ms, row.minutes_productive_ms) != (row.hours_ms, row.hours_productive_ms)
    ]
    total_h = sum(row.hours_ms for row in looked_at) // 3_600_000
    said = f"{total_h} sampled GPU-hours of ended jobs are those of their minutes"
    return findings(HOURS, faults, "ended jobs", said + _dropped(kept_from))


def nodes(rows: Sequence[NodeMinute], looked_at: int) -> list[AuditFinding]:
    """Check that the cost of a node beyond its jobs is its free GPU-time at its price, up to the rounding of the rows."""
    faults = [
        AuditFinding(
            NODES,
            f"node {row.node}",
            row.free_usd,
            row.idle_usd,
            ok=False,
            detail=f"minute {row.minute} of node {row.node}: its {row.rows} rows leave ${row.idle_usd} idle, its free "
            f"GPU-time is worth ${row.free_usd}; {RECOUNT}",
        )
        for row in rows
    ]
    return findings(NODES, faults, "all nodes", f"{looked_at} minutes of nodes: node = jobs + idle")


def writers(rows: Sequence[Twins]) -> list[AuditFinding]:
    """Check that no two rows of one key and version differ."""
    faults = [
        AuditFinding(
            WRITERS,
            row.table,
            "0 keys",
            f"{row.keys} keys",
            ok=False,
            detail=f"`{row.table}` has {row.keys} keys with two different rows of one version: two workers own one "
            f"shard ({'; '.join(row.examples[:3])}); stop all but one of them and look for workers with other group "
            "settings on this store",
        )
        for row in rows
        if row.keys
    ]
    return findings(WRITERS, faults, "ledger", "no two rows of one key and version differ")


def minute_name(minute: int) -> str:
    """Format a minute since 1970 in UTC."""
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%d %H:%M")


def _usd(nano: float) -> str:
    return f"${nano / 1e9:.9f}"


def parts(rows: Sequence[LostPart]) -> list[AuditFinding]:
    """Check that the engine has detached no part of a table: it detaches parts that it cannot read, and omits their rows."""
    faults = [
        AuditFinding(
            PARTS,
            f"`{row.table}`",
            "all parts",
            f"{row.name} set aside",
            ok=False,
            detail=f"part {row.name} of `{row.table}` was set aside ({row.reason or 'detached by hand'}): its rows are "
            "missing from every figure; `trainfare audit --recount FROM TO --repair` puts rows of the ledger back; else "
            "restore the store from a backup, or meter the log again into an empty one",
        )
        for row in rows
    ]
    return findings(PARTS, faults, "all tables", "no part of a table was set aside")
