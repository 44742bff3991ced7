"""How far Slurm was read: what was published of each job that runs or ended lately. Plain values, stored as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from streams.collect.collector import Position
from streams.collect.slurm.events import END_TYPES, KeyedEvent
from streams.collect.slurm.job_numbers import JobNumbers
from streams.errors import TrainfareError

#: How long a job that is over is remembered; sacct is asked about less than this again.
REMEMBERED_S: Final = 2 * 3600


class NewEvent(NamedTuple):
    """An event to publish, with its job's number in Slurm."""

    raw_id: int
    keyed: KeyedEvent


class LostJob(NamedTuple):
    """A job whose newest attempt has no end, though squeue lists it no more."""

    raw_id: int
    job_id: str
    attempt: int


class Progress:
    """A position, taken apart.

    `jobs` has for each job, by Slurm's number, its id and the keys of its published events; `read_s` is until when Slurm
    was read (0: never); `nodes` the newest state of each node (None: never read); `numbers` the highest job's.
    """

    def __init__(
        self,
        since_s: int,
        read_s: int,
        jobs: Mapping[str, Iterable[str]],
        nodes: Mapping[str, str] | None = None,
        numbers: JobNumbers | None = None,
    ) -> None:
        self.since_s = since_s
        self.read_s = read_s
        self.nodes = nodes
        self.numbers = numbers or JobNumbers()
        self._jobs = {int(raw_id): list(keys) for raw_id, keys in jobs.items()}

    @classmethod
    def of(cls, position: Position | None, since_s: int) -> Progress:
        """The progress of a position; `since_s` is used where there is none yet.

        Raises:
            TrainfareError: It is not one that this collector stored.
        """
        if position is None:
            return cls(since_s, 0, {})
        try:
            nodes = position.get("nodes")
            known = None if nodes is None else {str(node): str(state) for node, state in nodes.items()}
            numbers = JobNumbers.of(position.get("numbers", {}))
            return cls(int(position["since_s"]), int(position["read_s"]), position["jobs"], known, numbers)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise TrainfareError(
                "the position is not one of slurm's; remove its file to read Slurm from `since` on"
            ) from None

    def position(self) -> dict[str, Any]:
        """Copy it into a position to store; later polls do not change the copy."""
        nodes = {} if self.nodes is None else {"nodes": self.nodes}
        return {
            **nodes,
            "numbers": self.numbers.stored(),
            "since_s": self.since_s,
            "read_s": self.read_s,
            "jobs": {str(raw_id): list(keys) for raw_id, keys in self._jobs.items()},
        }

    def is_sent(self, raw_id: int, key: str) -> bool:
        """Whether an event was published."""
        return key in self._jobs.get(raw_id, ())[1:]

    def add(self, new: NewEvent) -> None:
        """Remember a published event."""
        self._jobs.setdefault(new.raw_id, [new.keyed.event.value["job_id"]]).append(new.keyed.key)

    def lost(self, listed: Collection[int]) -> list[LostJob]:
        """The jobs that are not listed and have no end."""
        return [
            LostJob(raw_id, keys[0], newest_attempt(keys[1:]))
            for raw_id, keys in self._jobs.items()
            if raw_id not in listed and is_open(keys[1:])
        ]

    def is_open(self, raw_id: int, attempt: int) -> bool:
        """Whether this is the newest attempt of a job, and has no end."""
        keys = self._jobs.get(raw_id, [""])[1:]
        return newest_attempt(keys) == attempt and is_open(keys)

    def forget(self, listed: Collection[int], now_s: int) -> None:
        """Forget jobs that are over for long."""
        for raw_id, (_, *keys) in list(self._jobs.items()):
            newest_s = max(int(key.split(".")[2]) for key in keys)
            if newest_s < now_s - REMEMBERED_S and raw_id not in listed and not is_open(keys):
                del self._jobs[raw_id]


def newest_attempt(keys: Iterable[str]) -> int:
    """The highest attempt among the events of a job; 0 if there are none."""
    return max((_attempt(key) for key in keys), default=0)


def is_open(keys: Iterable[str]) -> bool:
    """Whether the newest attempt among the events of a job has no end."""
    newest, ended = 0, 0
    for key in keys:
        newest = max(newest, _attempt(key))
        if key.split(".")[1] in END_TYPES:
            ended = max(ended, _attempt(key))
    return ended < newest


def _attempt(key: str) -> int:
    return int(key.split(".", 1)[0])
