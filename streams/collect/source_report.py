"""Says on the topic `controls` what became of all that a collector has read, for `trainfare sources` and the alerts.

Seldom: at the first poll of a process, when what is not understood changes, and once an hour.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from streams.accounts.account import Account, EntryClass
from streams.accounts.record import source_record
from streams.collect.collector import CollectedEvent
from streams.errors import TrainfareError
from streams.topics import Topic

logger = logging.getLogger(__name__)

EVERY_MS: Final = 3_600_000
#: A cause stands until so many polls in a row are without it.
POLLS: Final = 3


class ReportMemory(Protocol):
    """Keeps a report's figures beyond the process."""

    @property
    def report(self) -> Mapping[str, Any]:
        """What was stored last; empty at first."""

    def store_report(self, report: Mapping[str, Any]) -> None:
        """Store it.

        Raises:
            TrainfareError: It cannot be written.
        """


class _AccountFigures(msgspec.Struct):
    """An account as it is kept: numbers by class and reason, examples by reason."""

    polls: int = 0
    counts: list[tuple[EntryClass, str, int]] = []
    examples: dict[str, list[str]] = {}

    @classmethod
    def of(cls, account: Account, polls: int) -> _AccountFigures:
        counts = [(*key, count) for key, count in account.counts.items()]
        return cls(polls, counts, {reason: said[:1] for reason, said in account.examples.items()})

    def account(self) -> Account:
        found = Account()
        found.counts.update({(entry_class, reason): count for entry_class, reason, count in self.counts})
        found.examples = {reason: [*said] for reason, said in self.examples.items()}
        return found


class _ReportState(msgspec.Struct):
    """What a restart goes on from. `name`: under another one nothing was said yet."""

    name: str
    since: _AccountFigures
    last: _AccountFigures
    quiet: dict[str, int]


class SourceReport:
    """The figures since the last record.

    A poll that read nothing says nothing of the causes: of a source that is read on, what was read once does not come again.
    """

    def __init__(
        self,
        name: str,
        publish: Callable[[list[CollectedEvent]], None],
        memory: ReportMemory | None = None,
    ) -> None:
        """`memory`: None to forget the figures with the process; its position was loaded before."""
        self._name = name
        self._publish = publish
        self._memory = memory
        kept = _kept(name, {} if memory is None else memory.report)
        self._sum, self._polls = kept.since.account(), kept.since.polls
        self._last, self._last_polls = kept.last.account(), kept.last.polls
        self._quiet = kept.quiet  # reason that stands -> polls without it since it was seen
        self._said: tuple[int, frozenset[str]] | None = None
        self._is_failing = False

    def add(self, account: Account) -> None:
        """Count what a poll read that did not come to its end."""
        self._count(account)
        self._store()

    def polled(self, account: Account, now_ms: int) -> None:
        """Count what a poll read; publish a record if it is time."""
        self._count(account)
        standing = frozenset(self._quiet)
        is_time = self._said is None or self._said[1] != standing or now_ms - self._said[0] >= EVERY_MS
        if (is_time and self._is_published(standing, now_ms)) or account.read:
            self._store()

    def _count(self, account: Account) -> None:
        self._sum.add(account)
        self._polls += 1
        if not account.read:
            return
        seen = account.examples.keys()
        quiet = {reason: polls + 1 for reason, polls in self._quiet.items()} | dict.fromkeys(seen, 0)
        self._quiet = {reason: polls for reason, polls in quiet.items() if polls < POLLS}

    def _is_published(self, standing: frozenset[str], now_ms: int) -> bool:
        said, polls = self._last, self._last_polls
        if self._sum.read or not polls:  # else the record before is said again
            said, polls = self._sum, self._polls
            for reason in standing - said.examples.keys():
                said.examples[reason] = self._last.examples.get(reason, [])[:1]
        try:
            record = source_record(self._name, said, polls, sorted(standing), now_ms)
            self._publish([CollectedEvent(Topic.CONTROLS, record)])
        except TrainfareError as fault:
            if not self._is_failing:
                logger.warning(
                    "what became of the source's entries is not published, tried again at each poll",
                    extra={
                        "source_name": self._name,
                        "fault": str(fault),
                        "runbook": "docs/trouble.md#nothing-collected",
                    },
                )
            self._is_failing = True
            return False
        self._last, self._last_polls = said, polls
        self._said, self._sum, self._polls, self._is_failing = (now_ms, standing), Account(), 0, False
        return True

    def _store(self) -> None:
        if self._memory is not None:
            since, said = (
                _AccountFigures.of(self._sum, self._polls),
                _AccountFigures.of(self._last, self._last_polls),
            )
            self._memory.store_report(msgspec.to_builtins(_ReportState(self._name, since, said, self._quiet)))


def _kept(name: str, stored: Mapping[str, Any]) -> _ReportState:
    try:
        kept = msgspec.convert(stored, _ReportState)
    except msgspec.ValidationError:  # of another version, or none yet: its figures begin anew
        return _ReportState(name, _AccountFigures(), _AccountFigures(), {})
    return kept if kept.name == name else _ReportState(name, _AccountFigures(), _AccountFigures(), {})
