"""The plain values that the checks compare, from the tables or from a running worker.

It must not judge.
"""

from __future__ import annotations

from typing import NamedTuple


class Letters(NamedTuple):
    """Dead letters of one partition, as of the offset that its books are of."""

    name: str
    refused: int  # too late + dead-lettered, as the books say
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
    counted: int | None  # by which the shard's books grew in our hands; None: it left
    folded_here: int  # into the shard that we hold


class MinuteSum(NamedTuple):
    """A job's minute in the ledger: the sum of its rows, how many there are, and the newest of their versions."""

    cost_nano: int
    rows: int
    version: int


class KnownMinutes(NamedTuple):
    """A job's minute in the windows, and the version that all rows of it had at most when it was looked at."""

    cost_nano: float
    version: int


class MonthSum(NamedTuple):
    """A shard's rows of a month in one table of the ledger, added up; the newest of their versions."""

    table: str
    shard: int
    month: int  # 202611
    quantity: int  # of all units, modulo 2**64
    cost_nano: int
    version: int


class Costs(NamedTuple):
    """Ledger rows, each computed again from its quantity and price."""

    table: str
    rows: int
    wrong: int
    impossible: int  # negative, or more lost than there is
    unknown: int  # of a price that `prices` lacks
    examples: tuple[str, ...]


class Twins(NamedTuple):
    """Rows of one key and one version that differ: two owners wrote at once."""

    table: str
    keys: int
    examples: tuple[str, ...]


class LedgerTotals(NamedTuple):
    """What all jobs cost, by `job_costs` and by the rows of the ledger; decimal strings."""

    job_costs_usd: str
    ledger_usd: str


class NodeMinute(NamedTuple):
    """A node's minute in which idle time is not worth what its row and its jobs' rows leave over."""

    node: str
    minute: str
    idle_usd: str
    free_usd: str
    rows: int


class SnapshotHead(NamedTuple):
    """One stored version of a shard's state; `whole`: all chunks are there and the checksum is right.

    `root`: the oldest version that a restore of it needs, 0 for the one without a parent.
    """

    shard: int
    version: int
    parent: int
    whole: bool
    root: int = 0


class CommittedPosition(NamedTuple):
    """A partition's offsets: what the snapshot awaits next, the log's end, what was committed; None: not known."""

    name: str
    next: int
    log_end: int | None
    committed: int | None
