"""How far each rule about one job is from firing, by the state that its shard stored.

The job and what it pays are restored, and its shard's judge is asked; of an earlier instant it is asked with what had happened by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.durations import BEGINNING_MS, NEVER_MS
from schemas.events import ControlEvent
from streams.engine.burn.margins import RuleMargins
from streams.engine.kernels.episode import TICK_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import KnownReference
from streams.engine.rules.registry import JOB_RULES
from streams.engine.settings import ShardSettings
from streams.engine.shard import read_back, snapshot_reader
from streams.engine.shard.state import ShardState
from streams.engine.state.job import JobState

_SETTINGS: Final = ShardSettings(run_start_ms=NEVER_MS)
_LISTENING: Final = frozenset(rule.name for rule in JOB_RULES if rule.listens)


@dataclass
class StoredJob:
    """One job as its shard stored it; `archived` is the version of its state where it left the shard's memory."""

    job_id: str
    _shard: ShardState
    archived: int | None
    #: When the job was heard of last, before an earlier instant was asked for; None: it was not asked yet.
    _heard_ms: int | None = None

    @classmethod
    def load(cls, number: int, blobs: Sequence[bytes], job_id: str) -> StoredJob:
        """Restore the job from its shard's chain of snapshots, oldest first.

        Raises:
            ValueError: The chain is of another shard, or does not begin at a root.
            UnknownFormatError: The program does not support a snapshot's format.
        """
        shard = ShardState(number, _SETTINGS, PriceBook.empty())
        snapshot_reader.load_one(shard, blobs, job_id)
        archived = None if job_id in shard.jobs else shard.archived.version_of(job_id)
        return cls(job_id, shard, archived)

    def adopt(self, blob: bytes) -> None:
        """Load the state of an archived job."""
        read_back.adopt_job(self._shard, self.job_id, blob)

    @property
    def judged_ms(self) -> int:
        """The last tick that the shard judged; -1: none."""
        tick_ms = self._shard.position.tick_ms
        return -1 if tick_ms is None else tick_ms - TICK_MS

    def margins(self, at_ms: int, controls: Iterable[ControlEvent]) -> list[RuleMargins]:
        """The margins at the tick at or before an instant, in the order of the rules; nothing if there is nothing to judge.

        Before the last judged tick, what a rule needs to know of heartbeats is not stored: its margins are unknown. What came after
        the instant is forgotten: of several instants ask for the latest one first.
        """
        job = self._shard.jobs.get(self.job_id)
        if job is None:
            return []
        tick_ms = at_ms // TICK_MS * TICK_MS
        if self._heard_ms is None:
            self._heard_ms = job.heard_ms
        if tick_ms < self.judged_ms:
            _forget_after(job, tick_ms)
        if not job.attempts:
            return []
        standing = {f"{each.kind}/{each.name}".encode(): each for each in controls}
        known = KnownReference(self._shard.prices.book, standing, NEVER_MS)
        found = self._shard.tracker.margins_as_of(self._shard.tracked, self.job_id, tick_ms, known)
        if self._heard_ms <= tick_ms or tick_ms >= self.judged_ms:
            return found
        return [_unknown(each) if each.rule in _LISTENING else each for each in found]


def controls_of(values: Iterable[tuple[str, str, Mapping[str, object]]]) -> list[ControlEvent]:
    """Records of controls by their (kind, name, value)."""
    return [ControlEvent("", "", 0, kind, name, dict(value)) for kind, name, value in values]


def _forget_after(job: JobState, at_ms: int) -> None:
    """Drop the lifecycle events after an instant, and attempts that began later."""
    for number, attempt in list(job.attempts.items()):
        events = [event for event in attempt.events if event.time_ms <= at_ms]
        if attempt.events and not events:
            del job.attempts[number]
            continue
        attempt.events.clear()
        attempt.has_start = False
        attempt.load_events(events)
    job.set_times(job.first_ms, job.last_ms, job.heard_ms if job.heard_ms <= at_ms else BEGINNING_MS)
    job.pace = None if job.pace is not None and job.pace.last_ms > at_ms else job.pace
    job.laps = None if job.laps is not None and job.laps.newest[0] > at_ms else job.laps
    heartbeats = job.heartbeats
    job.heartbeats = None if heartbeats is not None and heartbeats.newest_ms > at_ms else heartbeats
    job.note_usage()
    job.forget_derived()


def _unknown(found: RuleMargins) -> RuleMargins:
    margins = tuple(each._replace(value=None, share=None) for each in found.margins)
    return found._replace(holds=False, margins=margins)
