"""The plain values that the checks compare, from the tables or from a running worker."""

from __future__ import annotations

from typing import NamedTuple


class Letters(NamedTuple):
    """Dead letters of one partition, as of the offset of its record accounting."""

    name: str
    refused: int  # too late + dead-lettered, by the record accounting
    counted: int  # by reason, in `dead_letter_counts`
    stored: int  # of these, not sampled out
    rows: int  # in `dead_letters`


class Flows(NamedTuple):
    """Where the fetched records of one partition went in this process."""

    name: str
    fetched: int
    folded: int
    trimmed: int
    not_mine: int
    given_back: int
    waiting: int
    counted: int | None  # increase of the shard's record counts since the takeover; None: it was revoked
    folded_here: int  # into the shard that we own


class MinuteSum(NamedTuple):
    """A job's minute in the ledger: the sum of its rows, their number, and their newest version."""

    cost_nano: int
    rows: int
    version: int


class KnownMinutes(NamedTuple):
    """A job's minute in the windows, and the highest version that its rows had at that time."""

    cost_nano: float
    version: int


class MonthSum(NamedTuple):
    """The sum of a shard's rows of a month in one table of the ledger, and their newest version."""

    table: str
    shard: int
    month: int  # 202611
    quantity: int  # of all units, modulo 2**64
    cost_nano: int
    version: int
    gpu_milli_ms: int = 0


class WallClock(NamedTuple):
    """The wall-clock time of a shard's ended jobs, by `attempts` and by their hours, and the newest version of both."""

    shard: int
    attempts_ms: int
    hours_ms: int
    version: int


class SampledTime(NamedTuple):
    """Sampled and productive GPU-time of a shard's ended jobs in a month, by minutes of usage and by hours.

    `version`: the newest of both.
    """

    shard: int
    month: int
    minutes_ms: int
    hours_ms: int
    minutes_productive_ms: int
    hours_productive_ms: int
    version: int


class Costs(NamedTuple):
    """Ledger rows, each recomputed from its quantity and price."""

    table: str
    rows: int
    wrong: int
    impossible: int  # negative, or more lost than there is
    unknown: int  # of a price that `prices` lacks
    examples: tuple[str, ...]


class Twins(NamedTuple):
    """Different rows with one key and one version: two owners wrote at the same time."""

    table: str
    keys: int
    examples: tuple[str, ...]


class HiddenJob(NamedTuple):
    """A job that views exclude as the canary's, and that cost or held more than a run of it can."""

    job_id: str
    usd: str
    gpu_milli_ms: int


class LedgerTotals(NamedTuple):
    """The cost of all jobs, by the rows of the ledger and by their hours; decimal strings.

    `job_costs` excludes the canary, whose part of both is given apart.
    """

    job_costs_usd: str
    ledger_usd: str
    hours_usd: str
    canary_ledger_usd: str = "0"
    canary_hours_usd: str = "0"
    canary_jobs: int = 0
    hidden: tuple[HiddenJob, ...] = ()


class NodeMinute(NamedTuple):
    """A node's minute whose idle cost differs from what its row and its jobs' rows leave."""

    node: str
    minute: str
    idle_usd: str
    free_usd: str
    rows: int


class SnapshotHead(NamedTuple):
    """One stored version of a shard's state; `whole`: all chunks are present and the checksum is right.

    `root`: the oldest version that a restore needs, 0 for a version without a parent.
    """

    shard: int
    version: int
    parent: int
    whole: bool
    root: int = 0


class CommittedPosition(NamedTuple):
    """A partition's offsets: the snapshot's next offset, the log's end, the committed offset; None: unknown."""

    name: str
    next: int
    log_end: int | None
    committed: int | None
