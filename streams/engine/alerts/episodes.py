"""Stores the alert episodes of jobs, one array line per job, and converts them to and from a snapshot."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from schemas.durations import BEGINNING_MS
from streams.engine.kernels.arrays import I32, I64, Records
from streams.engine.kernels.episode import RUNAWAY, no_episodes
from streams.engine.kernels.episode_steps import REOPENS_MS
from streams.engine.rules.registry import NAMES
from streams.engine.rules.rule import DIGEST, PAGE, TICKET

# As long as a resolved alert has an effect: reopening within 10 min, no new burn_drift for 1 h, flapping within 3 h. That of
# runaway length has one until the job is twice as old, and one of a fact that may hold in the next attempt for a day or a week.
REMEMBERED_MS: Final = 10_800_000
_SWEEP_MS: Final = 600_000
_FIRST_ROOM: Final = 16


#: The severities of openings as snapshots have them, in the order in which they came to be.
AS_OPENED: Final = (TICKET, PAGE, DIGEST)


class Remembered(Struct, frozen=True, array_like=True, gc=False):
    """One rule of one job: the kernel's EPISODE without `reported_ms`; a new field needs a default."""

    rule: str
    open: int
    started_ms: int
    fired_ms: int
    cleared_ms: int
    held_ms: int
    firings: int
    elapsed_ms: int
    cost_nano: float
    expected_nano: float
    short_ratio: float
    silenced: int
    severity: int = 0
    shared_cause: str = ""
    opened_nano_per_hour: int = 0
    opening_1_ms: int = BEGINNING_MS
    opening_2_ms: int = BEGINNING_MS
    opening_3_ms: int = BEGINNING_MS
    flaps: int = 0
    quiet_ms: int = BEGINNING_MS
    again_ms: int = BEGINNING_MS
    level: int = 1
    ticket_ms: int = BEGINNING_MS
    page_ms: int = BEGINNING_MS
    known_nano: float = 0.0
    stood_ms: int = BEGINNING_MS
    known_until_ms: int = BEGINNING_MS
    said_nano: int = 0


class Opening(NamedTuple):
    """What is kept of the tick that opened an episode for as long as that lasts; fields of Remembered."""

    severity: int = (
        0  # 1 + its place in AS_OPENED, of rules whose severity depends on figures; 0: by the settings
    )
    shared_cause: str = ""
    opened_nano_per_hour: int = 0
    stood_ms: int = BEGINNING_MS  # since when the job stands still; BEGINNING_MS: not known, or another rule
    # Of a fact that may hold in the next attempt too: until when it is known, and what was wasted per hour at its last ticket or page.
    known_until_ms: int = BEGINNING_MS
    said_nano: int = 0


class JobMemory(Struct, frozen=True, array_like=True):
    """The rules of a job that have fired."""

    job_id: str
    rules: list[Remembered]


class Memory(Struct, frozen=True, array_like=True):
    """Everything that a judge remembers, for a snapshot."""

    jobs: list[JobMemory]


_FIELDS: Final = tuple(
    name for name in Remembered.__struct_fields__[1:] if name not in Opening._fields
)  # in the kernel's array
_NOT_KNOWN: Final = Opening()


class Episodes:
    """Lines of [job, rule], found by job id; lines of forgotten jobs are reused."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._free: list[int] = []
        self._swept_ms: int | None = None
        self._openings: dict[str, dict[int, Opening]] = {}
        self.lines: Records = no_episodes(_FIRST_ROOM, len(NAMES))

    def __len__(self) -> int:
        return len(self._place)

    @property
    def any_open(self) -> bool:
        """Whether any alert is firing."""
        return bool(self._place) and bool(self.lines["open"].any())

    def is_open(self, job_id: str) -> bool:
        """Whether an alert of the job is firing."""
        place = self._place.get(job_id)
        return place is not None and bool(self.lines["open"][place].any())

    def fires(self, rule: int) -> bool:
        """Whether an alert of a rule is firing."""
        return bool(self._place) and bool(self.lines["open"][:, rule].any())

    def open_jobs(self, rules: Sequence[int]) -> list[str]:
        """The jobs with a firing alert of these rules."""
        is_open = set(np.flatnonzero(self.lines["open"][:, rules].any(axis=1)).tolist())
        return sorted(job_id for job_id, place in self._place.items() if place in is_open)

    def open_outside(self, inside: Container[str]) -> list[str]:
        """The jobs with a firing alert but these."""
        return sorted(job_id for job_id in self._place if job_id not in inside and self.is_open(job_id))

    def notified_until_ms(self, job_ids: Sequence[str], at_ms: int) -> I64:
        """Until when runaway length, which does not fire, tells no more of each job ([job] int64); BEGINNING_MS: it may tell.

        It may of one that cleared so shortly before the tick `at_ms` that it would be the same episode.
        """
        places, named = self.places(job_ids), self.lines[:, RUNAWAY]
        may_tell = (named["open"] != 0) | (at_ms <= named["cleared_ms"] + REOPENS_MS)
        until_ms = np.where(may_tell, BEGINNING_MS, named["again_ms"])
        found: I64 = np.where(places < 0, BEGINNING_MS, until_ms[places])
        return found

    @property
    def any_silenced(self) -> bool:
        """Whether any alert fires under a silence."""
        return bool((self.lines["silenced"] & self.lines["open"]).any())

    def of(self, job_id: str) -> Records:
        """A copy of the line of a job ([rule]), empty where it has none."""
        place = self._place.get(job_id)
        lines = no_episodes(1, len(NAMES)) if place is None else self.lines[[place]]
        line: Records = lines[0]
        return line

    def places(self, job_ids: Sequence[str]) -> I32:
        """The line of each job ([job] int32), -1 where it has none."""
        if not self._place:
            return np.full(len(job_ids), -1, np.int32)
        found = map(self._place.get, job_ids, itertools.repeat(-1))
        return np.fromiter(found, np.int32, len(job_ids))

    def assign_lines(self, job_ids: Sequence[str], places: I32) -> None:
        """Assign a line to each job whose place is -1, and write it to `places`."""
        for k in np.flatnonzero(places < 0).tolist():
            places[k] = self._placed(job_ids[k])

    def forget_before(self, before_ms: int) -> None:
        """Forget episodes that have no effect at `before_ms` or later."""
        if self._swept_ms is not None and before_ms < self._swept_ms + _SWEEP_MS:
            return
        self._swept_ms = before_ms
        over = (self.lines["open"] == 0) & (self.lines["cleared_ms"] + REMEMBERED_MS <= before_ms)
        over &= self.lines["again_ms"] <= before_ms
        gone = over.all(axis=1)
        for job_id in [job_id for job_id, place in self._place.items() if gone[place]]:
            self._free.append(self._place.pop(job_id))
            self._openings.pop(job_id, None)

    def begin(self, job_id: str, rule: int, opening: Opening) -> None:
        """Remember what a new episode began with."""
        self._openings.setdefault(job_id, {})[rule] = opening

    def opening(self, job_id: str, rule: int) -> Opening:
        """What the episode began with; nothing is known of one that an earlier version has opened."""
        return self._openings.get(job_id, {}).get(rule, _NOT_KNOWN)

    def dump(self) -> Memory:
        """All lines in a canonical order."""
        places = sorted(self._place.items())
        lines = self.lines[[place for _, place in places]]
        at, rules = np.nonzero(lines["firings"])
        jobs = [JobMemory(job_id, []) for job_id, _ in places]
        found = lines[list(_FIELDS)][at, rules].tolist()
        for k, rule, values in zip(at.tolist(), rules.tolist(), found, strict=True):
            known = dict(zip(_FIELDS, values, strict=True))
            opening = self.opening(jobs[k].job_id, rule)
            jobs[k].rules.append(Remembered(NAMES[rule], **known, **opening._asdict()))
        return Memory(jobs)

    @classmethod
    def load(cls, memory: Memory) -> Episodes:
        """Build from a dump."""
        episodes = cls()
        for job in memory.jobs:
            line = episodes._placed(job.job_id)
            for remembered in job.rules:
                rule = NAMES.index(remembered.rule)
                for name in _FIELDS:
                    episodes.lines[line, rule][name] = getattr(remembered, name)
                opening = Opening(*(getattr(remembered, name) for name in Opening._fields))
                if opening != _NOT_KNOWN:
                    episodes.begin(job.job_id, rule, opening)
        return episodes

    def _placed(self, job_id: str) -> int:
        place = self._place.get(job_id)
        if place is None:
            place = self._free.pop() if self._free else len(self._place)
            self._place[job_id] = place
            if place >= len(self.lines):
                self.lines = np.concatenate((self.lines, no_episodes(len(self.lines), len(NAMES))))
            self.lines[place] = no_episodes(1, len(NAMES))[0]
        return place
