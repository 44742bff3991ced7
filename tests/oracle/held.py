"""The price fields of an attempt by instant: "as they held then"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.oracle.intake import JobLog, Sample
from tests.oracle.model import MINUTE_MS, PRICE_FIELDS, Fields
from tests.oracle.timeline import Attempt, Interval


def fields_of(named: Mapping[str, str | None]) -> Fields:
    """The price fields in their order, '' where none is named."""
    return tuple(named.get(name) or "" for name in PRICE_FIELDS)


class Held:
    """Each event's fields hold from its time on; a metered minute has those of its newest sample."""

    def __init__(self, attempt: Attempt, log: JobLog) -> None:
        values = attempt.initial
        self._steps: list[tuple[int, Fields]] = [(-(2**62), fields_of(values.fields))]
        for event in attempt.effective:
            values = values.after(event)
            if fields_of(values.fields) != self._steps[-1][1]:
                self._steps.append((event["time_ms"], fields_of(values.fields)))
        self.newest: dict[int, Sample] = {}
        if attempt.metered:
            for sample in (s for s in log.samples if s.attempt == attempt.number):
                for minute in {second // 60 for second in range(sample.first_s, sample.end_s)}:
                    if minute not in self.newest or self.newest[minute].newer() < sample.newer():
                        self.newest[minute] = sample

    def at(self, at_ms: int, *, of_samples: bool = True) -> tuple[int, Fields]:
        """(since when, the fields) at an instant; the last of several changes at one instant counts."""
        sample = self.newest.get(at_ms // MINUTE_MS) if of_samples else None
        if sample is not None:
            return 0, fields_of(sample.fields)
        return [step for step in self._steps if step[0] <= at_ms][-1]

    def cut(self, start_ms: int, end_ms: int) -> Iterator[Interval]:
        """[start, end) cut where the fields change."""
        for since_ms in sorted({at_ms for at_ms, _ in self._steps}):
            if start_ms < since_ms < end_ms:
                yield start_ms, since_ms
                start_ms = since_ms
        if start_ms < end_ms:
            yield start_ms, end_ms
