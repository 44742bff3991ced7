"""Withholds alerts whose figures are usual for the kind of their job, or for the job itself, and lets them go on once they are not.

What is usual, and what a job has reached, are functions of what is stored, so a restart and a backtest decide the same.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Alert, message_id
from streams.engine.rules.own_days import OwnDays, own_reason
from streams.engine.rules.usual_figures import UsualFigure, first_beyond, reason
from streams.notify.firing import KEPT_AT_MOST
from streams.notify.history import AT_ONCE
from streams.notify.intake import Passage
from streams.notify.kind_figures import KindFigures, figure_of
from streams.notify.notice import Notice
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

#: How often the figures of what is withheld are looked at: burn rates are stored each minute.
LOOK_MS: Final = 20_000


class KindVerdict(NamedTuple):
    """Whether an alert is usual for its kind, as far as is stored."""

    why: str  # in words; '': it is not
    seen_ms: int = 0  # the newest tick that was looked at
    beyond_ms: int | None = None  # the first tick at which its figure was beyond what is usual


class Decision(NamedTuple):
    """What becomes of an alert that was held."""

    passage: Passage
    why: str  # nobody needs it; '': it is to be sent
    is_late: bool = False  # it was withheld before


@dataclass(frozen=True)
class _HeldOrWithheld:
    passage: Passage
    alert: Alert  # the row by which it is judged: of an end that of its beginning, with when it was over
    seen_ms: int = 0  # up to which tick its figures were looked at
    was_withheld: bool = False


def verdicts(figures: KindFigures, alerts: Sequence[tuple[Alert, int]]) -> Iterator[KindVerdict]:
    """Judge alerts by their rows, and by what is stored of the ticks after an instant; it blocks.

    Args:
        figures: Reads the store.
        alerts: Each with the instant up to which it was found to be usual; 0: it was not looked at yet.
    """
    rows = [alert for alert, _ in alerts]
    known, own_days = figures.usual(rows), figures.own_days(rows)
    for usual, own, (alert, after_ms) in zip(known, own_days, alerts, strict=True):
        kind = None if usual is None and own is None else figure_of(alert)
        if kind is None:
            yield KindVerdict("", beyond_ms=alert.started_ms)
            continue
        limits = _UsualLimits(usual, own)
        reached = figures.figures(alert, kind, after_ms)
        beyond_ms = first_beyond(reached, limits.at)
        seen_ms = max((at_ms for at_ms, _ in reached), default=after_ms)
        yield KindVerdict(limits.reason(reached) if beyond_ms is None else "", seen_ms, beyond_ms)


class _UsualLimits(NamedTuple):
    """Up to where an alert is usual: for the kind of its job, or for the job itself at this time of the day; one of them is known."""

    kind: UsualFigure | None
    own: OwnDays | None

    def at(self, at_ms: int) -> int:
        """The greatest figure that is usual at an instant."""
        of_kind = -1 if self.kind is None else self.kind.limit
        if self.own is None:
            return of_kind
        return max(of_kind, self.own.limit_at(at_ms, None if self.kind is None else self.kind.usual))

    def reason(self, reached: Sequence[tuple[int, int]]) -> str:
        """Why an alert with these figures is usual, in words."""
        kind, own = self
        if kind is not None and (own is None or all(figure <= kind.limit for _, figure in reached)):
            return reason(kind)
        return "" if own is None else own_reason(own)


class KindHold:
    """Call `hold` with what is to be sent, and `decided` for what may go on."""

    def __init__(self, figures: KindFigures, clock: Clock, faults: DeliveryFaults, timeout_ms: int) -> None:
        self._figures = figures
        self._clock = clock
        self._faults = faults
        self._timeout_ms = timeout_ms
        self._threads = Threads("kinds")
        self._held: list[_HeldOrWithheld] = []
        self._withheld: dict[str, _HeldOrWithheld] = {}  # that fire, by alert id
        self._sent: OrderedDict[str, bool] = (
            OrderedDict()
        )  # ids of what fires and went on: its end goes on, too
        self._look_ms = 0
        #: Whether a silence covers what is withheld, by now.
        self.is_silenced: Callable[[Alert], bool] = lambda _: False

    def __len__(self) -> int:
        return len(self._held)

    def due_ms(self) -> int | None:
        """When to look (monotonic ms); None: there is nothing to look at."""
        if self._held:
            return self._clock.monotonic_ms()
        return self._look_ms if self._withheld else None

    def hold(self, passage: Passage) -> bool:
        """Hold what may be usual; what was sent to somebody, or was tried, is over for nobody."""
        alert = passage.alert
        is_sent = passage.was_notified or any(passage.history.attempts.values())
        if isinstance(alert, Notice) or is_sent or figure_of(alert) is None:
            return False
        if alert.status != FIRING and self._sent.pop(alert.alert_id, False):
            return False
        known = self._withheld.get(alert.alert_id)
        if known is None:
            self._held.append(_HeldOrWithheld(passage, alert))
        elif alert.status != FIRING:
            # What was looked at of its beginning need not be looked at again.
            over = msgspec.structs.replace(known.alert, resolved_ms=alert.resolved_ms)
            self._held.append(_HeldOrWithheld(passage, over, known.seen_ms))
        elif message_id(known.passage.alert) != message_id(alert):
            self._held.append(_HeldOrWithheld(passage, alert, known.seen_ms))
        return True

    def hurry(self) -> None:
        """Look at everything once more, at once: nobody adds figures."""
        self._held = [*self._withheld.values(), *self._held]
        self._withheld = {}

    def release(self, shards: Collection[int]) -> None:
        """Drop what is of shards that are no longer ours."""
        self._held = [each for each in self._held if each.passage.shard not in shards]
        kept = {key: each for key, each in self._withheld.items() if each.passage.shard not in shards}
        self._withheld = kept

    async def decided(self) -> list[Decision]:
        """What becomes of what is held, in order, and what goes on that was withheld."""
        now_ms = self._clock.monotonic_ms()
        if self._withheld and now_ms >= self._look_ms:
            self.hurry()
        some = self._held[:AT_ONCE]
        if not some:
            return []
        self._look_ms = now_ms + LOOK_MS
        asked: Mapping[int, KindVerdict] = {}
        try:
            reading = self._threads.run(self._judged, some)
            asked = await asyncio.wait_for(reading, self._timeout_ms / 1000)
            self._faults.worked("read_alerts")
        except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
            self._faults.failed("read_alerts", fault)
        found: list[Decision] = []
        looked_at = {id(each) for each in some}
        # As they are now: shards may have been released meanwhile.
        held, self._held = self._held, [each for each in self._held if id(each) not in looked_at]
        for each in held:
            if id(each) in looked_at:
                found += self._decide(each, asked.get(id(each)))
        return found

    def _decide(self, waiting: _HeldOrWithheld, answer: KindVerdict | None) -> Iterator[Decision]:
        """What becomes of one; without an answer it is sent, but what was withheld waits for one."""
        passage, was_withheld = waiting.passage, waiting.was_withheld
        of = KindVerdict("unknown" if was_withheld else "") if answer is None else answer
        is_usual = bool(of.why) or (was_withheld and self.is_silenced(passage.alert))
        self._withheld.pop(passage.alert.alert_id, None)
        if len(self._withheld) >= KEPT_AT_MOST:
            of, is_usual = KindVerdict(""), False  # it could not be looked at again
        if is_usual and passage.alert.status == FIRING:
            seen_ms = max(waiting.seen_ms, of.seen_ms)
            self._withheld[passage.alert.alert_id] = _HeldOrWithheld(
                passage, waiting.alert, seen_ms, was_withheld=True
            )
        if not is_usual and passage.alert.status == FIRING:
            self._sent[passage.alert.alert_id] = True
            if len(self._sent) > KEPT_AT_MOST:
                self._sent.popitem(last=False)
        if not (is_usual and was_withheld):
            yield Decision(passage, of.why, was_withheld)

    def _judged(self, waiting: Sequence[_HeldOrWithheld]) -> dict[int, KindVerdict]:
        found = verdicts(self._figures, [(each.alert, each.seen_ms) for each in waiting])
        return {id(each): of for each, of in zip(waiting, found, strict=True)}
