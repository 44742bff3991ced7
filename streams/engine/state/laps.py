"""How fast the progress of a job moves: the laps that were as usual, and the slow ones since.

A fold of its events, in order of arrival, as the one of `pace`. A lap is the time from one report to the first one that moved ten
minutes later or more. Time in which a value stands still for long is in no lap: other rules tell of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from schemas.events import JobEvent, JobType
from streams.engine.timeline.attempts import event_order

#: The value that is measured: tokens and samples go on alike where sequences and batches become longer, steps do not.
MEASURED: Final = ("tokens", "samples", "step", "epoch")
LAP_MS: Final = 10 * MINUTE_MS
#: So many laps must be known, and so many are kept, to say what is usual.
KNOWN_LAPS: Final = 6
USUAL_LAPS: Final = 12
#: A value that moves after so long, and after so many times its mean interval, stood still.
PAUSE_MS: Final = 15 * MINUTE_MS
PAUSE_TIMES: Final = 6
#: A lap at this part of the usual speed, or less, is slow, and does not change what is usual.
SLOW_PARTS: Final = 2
#: Time after these is another one than before.
_BREAKS: Final = (JobType.suspended, JobType.resumed)


class ProgressLaps(NamedTuple):
    """The laps of the newest attempt that reported progress; what was usual before it counts, if it holds as many GPUs."""

    attempt: int
    newest: tuple[int, int, str, str]  # the order of the newest report in its attempt
    gpu_milli: int
    name: str
    value: float
    moved_ms: int  # when it was first reported
    from_ms: int  # when the lap began; -1: it begins with the next report
    from_value: float
    moves: int = 0
    moving_ms: int = 0  # in which it moved so often
    usual: tuple[float, ...] = ()  # how much per ms in the laps that were not slow, the newest last
    slow_since_ms: int = 0
    slow_ms: int = 0  # the length of the slow laps since the last one that was not; 0: there are none
    slow_gain: float = 0.0
    longest_ms: int = 0  # the most that this was before a lap that was not
    until_ms: int = 0  # the end of the last slow lap

    @property
    def usual_per_ms(self) -> float:
        """How much it moved per ms in a usual lap; 0: too few are known."""
        return sorted(self.usual)[len(self.usual) // 2] if len(self.usual) >= KNOWN_LAPS else 0.0

    @property
    def stands_from_ms(self) -> int:
        """When it will have stood still for long, if it does not move before."""
        mean_ms = -(-PAUSE_TIMES * self.moving_ms // self.moves) if self.moves else 0
        return self.moved_ms + max(PAUSE_MS, mean_ms)


def next_laps(laps: ProgressLaps | None, event: JobEvent, before: Iterable[JobEvent]) -> ProgressLaps | None:
    """The laps after an event; `before`: those of its attempt that came before it."""
    if laps is not None and event.attempt >= laps.attempt:
        if event.gpu_milli is not None and event.gpu_milli != laps.gpu_milli:
            laps = _anew(laps)._replace(gpu_milli=event.gpu_milli, usual=(), longest_ms=0)
        elif event.type in _BREAKS:
            laps = _anew(laps)
    if not event.progress:
        return laps
    order, name = event_order(event), min(event.progress, key=_rank)
    if laps is None:
        return _begun(event, order, _held_milli([*before, event]), name)
    if event.attempt > laps.attempt:
        began = _begun(event, order, laps.gpu_milli, name)
        is_alike = name == laps.name
        return began._replace(usual=laps.usual, longest_ms=laps.longest_ms) if is_alike else began
    if event.attempt < laps.attempt or order <= laps.newest:
        return laps
    if _rank(name) < _rank(laps.name):
        return _begun(event, order, laps.gpu_milli, name)
    if laps.name not in event.progress:
        return laps
    return _moved(laps._replace(newest=order), event.time_ms, event.progress[laps.name])


def _held_milli(events: Iterable[JobEvent]) -> int:
    """What the newest of the events that say it says."""
    naming = [event for event in events if event.gpu_milli is not None]
    return max(naming, key=event_order).gpu_milli or 0 if naming else 0


def _rank(name: str) -> tuple[int, str]:
    return (MEASURED.index(name) if name in MEASURED else len(MEASURED)), name


def _begun(event: JobEvent, order: tuple[int, int, str, str], gpu_milli: int, name: str) -> ProgressLaps:
    value: float = (event.progress or {})[name]
    return ProgressLaps(event.attempt, order, gpu_milli, name, value, event.time_ms, event.time_ms, value)


def _anew(laps: ProgressLaps) -> ProgressLaps:
    return laps._replace(from_ms=-1, slow_ms=0, slow_gain=0.0)


def _moved(laps: ProgressLaps, at_ms: int, value: float) -> ProgressLaps:
    """The laps after a report of the value."""
    if laps.from_ms < 0 or value < laps.value:
        return laps._replace(value=value, moved_ms=at_ms, from_ms=at_ms, from_value=value)
    if value == laps.value:
        return laps
    stood_ms = at_ms - laps.moved_ms
    if stood_ms >= PAUSE_MS and laps.moves and stood_ms * laps.moves > PAUSE_TIMES * laps.moving_ms:
        return laps._replace(value=value, moved_ms=at_ms, from_ms=at_ms, from_value=value)
    laps = laps._replace(
        value=value, moved_ms=at_ms, moves=laps.moves + 1, moving_ms=laps.moving_ms + stood_ms
    )
    return laps if at_ms - laps.from_ms < LAP_MS else _closed(laps, at_ms)


def _closed(laps: ProgressLaps, at_ms: int) -> ProgressLaps:
    """The laps after the end of one."""
    lap_ms, gain = at_ms - laps.from_ms, laps.value - laps.from_value
    if laps.usual_per_ms and SLOW_PARTS * gain / lap_ms <= laps.usual_per_ms:
        return laps._replace(
            from_ms=at_ms,
            from_value=laps.value,
            slow_since_ms=laps.slow_since_ms if laps.slow_ms else laps.from_ms,
            slow_ms=laps.slow_ms + lap_ms,
            slow_gain=laps.slow_gain + gain,
            until_ms=at_ms,
        )
    return laps._replace(
        from_ms=at_ms,
        from_value=laps.value,
        usual=(*laps.usual, gain / lap_ms)[-USUAL_LAPS:],
        slow_ms=0,
        slow_gain=0.0,
        longest_ms=max(laps.longest_ms, laps.slow_ms),
    )
