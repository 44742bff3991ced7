"""Judges the controls among lines that are to be published: each by itself, then beside those in force and the other lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.events import ControlEvent
from streams.config.settings import KafkaSettings
from streams.engine.alerts.beside_others import fault_beside
from streams.engine.alerts.ineffective import faults_of
from streams.topics import Topic

_Key = tuple[str, str]


class _Doubtful(NamedTuple):
    """A control that changes nothing unless one in force makes it do so."""

    where: str
    event: ControlEvent
    before: ControlEvent | None  # of an earlier line


class ControlLines:
    """The controls of one command, in the order in which they would be published."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._faults: list[str] = []
        self._doubtful: list[_Doubtful] = []
        self._last: dict[_Key, ControlEvent] = {}
        self.effective: list[
            tuple[ControlEvent, Callable[[str], str]]
        ] = []  # and what makes a line of a fault of it

    def add(self, where: str, value: bytes | None) -> None:
        """Judge the next one by itself."""
        event = decode(Topic.CONTROLS, value, (), NEVER_MS)
        faults = faults_of(event)
        self._faults += [_line(where, each) for each in faults]
        if faults or value is None or not isinstance(event, ControlEvent):
            return
        key = event.kind, event.name
        self.effective.append((event, partial(_fault, where, key)))
        before = self._last.get(key)
        if fault_beside(event, before, (), self._now_ms) is not None:
            self._doubtful.append(_Doubtful(where, event, before))
        self._last[key] = event

    def faults(self, kafka: KafkaSettings) -> list[str]:
        """A line for each control that would have no effect. Reads the log only if that depends on what is in force.

        Raises:
            TrainfareError: The log cannot be read.
        """
        if self._faults or not self._doubtful:
            return self._faults
        from streams.transport.controls_log import read_controls  # loads Kafka clients

        in_force = {(event.kind, event.name): event for event in read_controls(kafka)}
        after = in_force | self._last
        found: list[str] = []
        for where, event, before in self._doubtful:
            key = event.kind, event.name
            others = [each for other, each in after.items() if other != key]
            detail = fault_beside(event, before or in_force.get(key), others, self._now_ms)
            if detail is not None:
                found.append(_fault(where, key, detail))
        return found


def _fault(where: str, key: _Key, detail: str) -> str:
    return _line(where, f"{'/'.join(key)}: {detail}")


def _line(where: str, detail: str) -> str:
    return f"{where}: the control would have no effect: {detail}"
