"""Parts of a shard's state that several of its modules write: how far the log is read, and what is due.

Plain memory: no part computes a cost, and none knows the shard that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LogPosition:
    """How far the shard has read the log. Dictionaries are by topic."""

    next: dict[str, int] = field(default_factory=dict)  # the next offset to fold
    newest_ms: dict[str, int] = field(default_factory=dict)  # the newest event time
    forgotten_ms: dict[str, int] = field(
        default_factory=dict
    )  # state of earlier event times may have been dropped
    log_ms: dict[str, int] = field(default_factory=dict)  # the newest log time
    tick_ms: int | None = None  # the next tick to judge; None before the first record

    def expect_tick(self, tick_ms: int | None) -> None:
        """Record the next tick to judge: all before it are judged, or will never be."""
        self.tick_ms = tick_ms


@dataclass(slots=True)
class DueWork:
    """What the next checkpoints must derive, and how far the accrual of open attempts has come."""

    dirty_jobs: set[str] = field(default_factory=set)  # something that affects cost changed
    open_jobs: set[str] = field(default_factory=set)
    sampled_jobs: set[str] = field(default_factory=set)  # open; only samples arrived since they were derived
    hours_put_off: set[str] = field(
        default_factory=set
    )  # not ended; minutes changed whose hours are not written
    dirty_nodes: set[str] = field(default_factory=set)  # an event or a price of theirs is new
    open_nodes: set[str] = field(default_factory=set)  # in service
    # Accrual of all open attempts may take several checkpoints: its instant, and the jobs that are left.
    accruing: tuple[int, list[str]] = (0, [])
    accrued_to_ms: int = 0  # every open attempt is booked up to this instant
    accrued_read_to_ms: int = 0  # the log time up to which all records had been read then
    archive_due_ms: int = 0  # event time at which finished jobs are searched again
    books_owed: bool = False
    books_next: dict[str, int] = field(default_factory=dict)  # the offsets of the stored books

    @property
    def waiting_nodes(self) -> set[str]:
        """The nodes of which a checkpoint with open attempts may write something."""
        return self.dirty_nodes | self.open_nodes

    def accruable(self) -> set[str]:
        """The jobs of which the next accrual may write something."""
        return self.open_jobs | self.sampled_jobs | self.hours_put_off


def set_member(members: set[str], name: str, *, is_member: bool) -> None:
    """Add the job or node to a set of DueWork, or remove it."""
    if is_member:
        members.add(name)
    else:
        members.discard(name)
