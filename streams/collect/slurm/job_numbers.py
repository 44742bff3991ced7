"""Notices that Slurm counts jobs from the beginning again, so that two jobs have one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.durations import HOUR_S
from streams.collect.slurm.records import JobRecord

#: In a federation the bits above say which cluster a number is from.
_CLUSTER_BIT: Final = 26
#: Far more than the clocks of two controllers are apart.
_LATER_S: Final = HOUR_S


class JobNumbers:
    """The highest number of each cluster, and when that job was submitted: later jobs have higher ones."""

    def __init__(self, highest: Mapping[int, tuple[int, int]] | None = None) -> None:
        self._highest = dict(highest or {})

    @classmethod
    def of(cls, stored: Mapping[str, Sequence[int]]) -> JobNumbers:
        """As `stored` has them.

        Raises:
            ValueError: It is no such thing.
        """
        return cls({int(name): (int(number), int(at_s)) for name, (number, at_s) in stored.items()})

    def stored(self) -> dict[str, list[int]]:
        """Plain values, for `of`."""
        return {str(name): [*each] for name, each in sorted(self._highest.items())}

    def reused(self, record: JobRecord) -> str:
        """What says that the number of a job was given before; empty where nothing does. Takes the number into account.

        The number of a requeued job is older than its submission, that of a task of an array may be younger.
        """
        if record.restarts != 0 or record.array is not None or not record.submit_s:
            return ""
        if "RESIZING" in record.states:
            return ""
        cluster = record.raw_id >> _CLUSTER_BIT
        number, at_s = self._highest.get(cluster, (0, 0))
        if record.raw_id > number:
            self._highest[cluster] = record.raw_id, record.submit_s
        elif record.raw_id < number and record.submit_s > at_s + _LATER_S:
            return (
                f"job {record.raw_id} was submitted after job {number}: Slurm counts from the beginning again"
            )
        return ""
