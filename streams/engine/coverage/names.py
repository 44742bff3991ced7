"""Maps holders and GPUs to the numbers that the kernels use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from schemas.events import GpuEvent
from streams import fallbacks
from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.blob_form import HolderPart

#: Earlier than any hour.
NO_HOUR: Final = -(2**62)
# An exporter that permutes its GPUs produces many message shapes.
_SPARE_GROUPS = 2_000

Key = tuple[str, int, str]
"""job_id, attempt, node; of a GPU that no job has: '', 0, and the node with the GPU (`place_of`)."""

Shape = tuple[str, str, int, tuple[str, ...]]
"""Of a message: node, job_id, attempt, GPUs."""


def place_of(node: str, gpu: str) -> str:
    """The name of a GPU of a node, different for each pair."""
    return f"{len(node)}:{node}{gpu}"


class Holder:
    """The GPUs of one node that one attempt was seen on, or one GPU that was sampled without a job."""

    __slots__ = (
        "attempt",
        "exported_gpus",
        "gpus",
        "job_id",
        "last_owed_hour",
        "node",
        "number",
        "packed",
        "part",
        "stored_gpus",
    )

    def __init__(self, number: int, job_id: str, attempt: int, node: str) -> None:
        self.number = number
        self.job_id = job_id
        self.attempt = attempt
        self.node = node
        # GPU id -> slot, in the order of first appearance, which is the GPU's ordinal.
        self.gpus: dict[str, int] = {}
        self.stored_gpus = 0  # how many of them, that a sample covered, are in a table
        self.exported_gpus = -1  # how many of them were exported; -1: the holder itself is new
        self.last_owed_hour = NO_HOUR  # the hour that was last found changed, until it is written
        self.packed = b""  # its packed rows, see PackedRows
        self.part: HolderPart | None = None  # its part in increments while it is unchanged

    @property
    def is_idle(self) -> bool:
        """Whether it is a GPU that no job has."""
        return not self.job_id

    def place(self) -> tuple[str, str]:
        """The node and the GPU of an idle holder: the inverse of `place_of`."""
        size, _, names = self.node.partition(":")
        return names[: int(size)], names[int(size) :]


class HolderNames:
    """Lookups from names to numbers; a known message shape costs one lookup.

    Of a message without a job that would make more than `max_idle_gpus` such GPUs known at a time, no GPU gets a slot: an
    exporter that invents names must not fill the memory. It has its turn again when GPUs were forgotten.
    """

    def __init__(self, arrays: CoverageArrays, max_idle_gpus: int) -> None:
        self._arrays = arrays
        self._max_idle_gpus = max_idle_gpus
        self._holders: dict[Key, Holder] = {}
        self._of_attempt: dict[tuple[str, int], list[Holder]] = {}
        self._of_job: dict[str, list[Holder]] = {}
        self._by_number: list[Holder | None] = []
        # Attempts whose holders have no counts, future holders included.
        self._uncounted: dict[str, set[int]] = {}
        self._groups: dict[Shape, int] = {}
        self.epoch = 0  # group numbers are valid while it is unchanged
        self._with_new_gpus: set[str] = set()  # jobs, until they are drained
        # Group -> for each distinct GPU its positions in the record, if a record repeats a GPU.
        self.repeated: dict[int, list[list[int]]] = {}

    def trim_groups(self) -> None:
        """Drop all groups if there are too many."""
        if len(self._groups) > _SPARE_GROUPS + 4 * self._arrays.slots:
            self._clear_groups()

    def groups_of(self, records: Sequence[GpuEvent]) -> list[int]:
        """The group of each record."""
        known = self._groups
        found = []
        for record in records:
            shape = (record.node, record.job_id, record.attempt, tuple(record.gpus))
            group = known.get(shape)
            if group is None:
                group = known[shape] = self._add(*shape)
            found.append(group)
        return found

    def _add(self, node: str, job_id: str, attempt: int, gpus: tuple[str, ...]) -> int:
        places: dict[str, list[int]] = {}
        for place, gpu in enumerate(gpus):
            places.setdefault(gpu, []).append(place)
        (group,) = self._new_groups([(node, job_id, attempt, tuple(places))])
        if len(places) < len(gpus):
            self.repeated[group] = list(places.values())
        return group

    def groups(self, shapes: Iterable[Shape]) -> list[int]:
        """The groups of several shapes without repeated GPUs. New groups are added in one step."""
        wanted = list(shapes)
        known = self._groups
        new = list(dict.fromkeys(shape for shape in wanted if shape not in known))
        known.update(zip(new, self._new_groups(new), strict=True))
        return [known[shape] for shape in wanted]

    def _new_groups(self, shapes: Sequence[Shape]) -> range:
        """Add groups of these shapes, with the slots that are missing."""
        arrays = self._arrays
        next_slot = arrays.slots
        holders: list[int] = []
        ordinals: list[int] = []
        slots: list[int] = []
        ends: list[int] = []
        owners: list[int] = []
        for node, job_id, attempt, gpus in shapes:
            holder = self.holder(job_id, attempt, node) if job_id else None
            is_kept = bool(job_id) or self._has_room(node, gpus)
            if not is_kept:
                fallbacks.counts[fallbacks.GPU_NOT_KEPT] += 1
            for gpu in gpus if is_kept else ():
                # A GPU without a job is a holder of its own: its minutes are kept by GPU.
                place = holder or self.holder("", 0, place_of(node, gpu))
                places = place.gpus
                slot = places.get(gpu)
                if slot is None:
                    holders.append(place.number)
                    ordinals.append(len(places))
                    slot = places[gpu] = next_slot
                    next_slot += 1
                    self._with_new_gpus.add(job_id)
                slots.append(slot)
            ends.append(len(slots))
            owners.append(1 if job_id else len(gpus))
        first = arrays.groups
        arrays.add_slots(holders, ordinals)
        arrays.add_groups(slots, ends, owners)
        return range(first, first + len(ends))

    def _has_room(self, node: str, gpus: Sequence[str]) -> bool:
        idle = len(self._of_job.get("", ()))
        if idle + len(gpus) <= self._max_idle_gpus:
            return True
        return (
            idle + sum(("", 0, place_of(node, gpu)) not in self._holders for gpu in gpus)
            <= self._max_idle_gpus
        )

    def holder(self, job_id: str, attempt: int, node: str) -> Holder:
        """The holder, created if needed."""
        key = job_id, attempt, node
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = Holder(self._arrays.add_holder(self._counting(*key[:2])), *key)
            self._of_attempt.setdefault((job_id, attempt), []).append(holder)
            self._of_job.setdefault(job_id, []).append(holder)
            self._by_number.append(holder)
        return holder

    def _counting(self, job_id: str, attempt: int) -> bool:
        return bool(job_id) and attempt not in self._uncounted.get(job_id, ())

    def drop_counts(self, job_id: str, attempt: int) -> None:
        """Record that future holders of the attempt have no counts."""
        self._uncounted.setdefault(job_id, set()).add(attempt)

    def slot(self, holder: Holder, gpu: str) -> int:
        """The slot of a holder's GPU, created if needed."""
        slot = holder.gpus.get(gpu)
        if slot is None:
            slot = self._arrays.slots
            self._arrays.add_slots([holder.number], [len(holder.gpus)])
            holder.gpus[gpu] = slot
            self._with_new_gpus.add(holder.job_id)
        return slot

    def by_number(self, number: int) -> Holder:
        """The holder with that number.

        Raises:
            KeyError: It was forgotten.
        """
        holder = self._by_number[number] if 0 <= number < len(self._by_number) else None
        if holder is None:
            raise KeyError(f"no holder {number}")
        return holder

    def by_numbers(self, numbers: Sequence[int]) -> list[Holder]:
        """The holders with these numbers.

        Raises:
            KeyError: One was forgotten.
        """
        every = self._by_number
        found = [holder for holder in map(every.__getitem__, numbers) if holder is not None]
        if len(found) < len(numbers):
            raise KeyError("a holder that was forgotten")
        return found

    def of_attempt(self, job_id: str, attempt: int) -> list[Holder]:
        """The holders of an attempt, in the order of first appearance."""
        return self._of_attempt.get((job_id, attempt), [])

    def of_job(self, job_id: str) -> list[Holder]:
        """The holders of all attempts of a job."""
        return self._of_job.get(job_id, [])

    def of_jobs(self, job_ids: Iterable[str]) -> list[Sequence[Holder]]:
        """The holders of all attempts of each job."""
        return list(map(self._of_job.get, job_ids, repeat(())))

    def drain_with_new_gpus(self) -> set[str]:
        """The jobs of which GPUs became known since the last call."""
        found, self._with_new_gpus = self._with_new_gpus, set()
        return found

    def jobs(self) -> list[str]:
        """All job ids."""
        return list(self._of_job)

    def all(self) -> list[Holder]:
        """All holders."""
        return list(self._holders.values())

    def find(self, job_id: str, attempt: int, node: str) -> Holder | None:
        """The holder, if it is known."""
        return self._holders.get((job_id, attempt, node))

    def is_known(self, holder: Holder) -> bool:
        """Whether the holder was not forgotten."""
        return self._holders.get((holder.job_id, holder.attempt, holder.node)) is holder

    def forget(self, job_id: str) -> list[Holder]:
        """Remove the names of a job; return its holders, whose arrays the caller frees."""
        self._uncounted.pop(job_id, None)
        gone = self._of_job.pop(job_id, [])
        for holder in gone:
            del self._holders[holder.job_id, holder.attempt, holder.node]
            self._of_attempt.pop((holder.job_id, holder.attempt), None)
            self._by_number[holder.number] = None
        if gone:
            self._clear_groups()
        return gone

    def forget_idle(self, gone: Sequence[Holder]) -> Sequence[Holder]:
        """Remove the names of GPUs without a job; return their holders, whose arrays the caller frees."""
        for holder in gone:
            del self._holders[holder.job_id, holder.attempt, holder.node]
            self._by_number[holder.number] = None
        left = [holder for holder in self._of_job.pop("", []) if self.is_known(holder)]
        self._of_attempt.pop(("", 0), None)
        if left:
            self._of_job[""], self._of_attempt["", 0] = left, list(left)
        self._clear_groups()
        return gone

    def compact_if_sparse(self, spare: int) -> None:
        """Compact if more than half, and more than `spare` entries, belong to no holder."""
        if self._arrays.is_sparse(spare):
            self.compact()

    def compact(self) -> None:
        """Shrink the arrays and adopt the new numbers."""
        kept = [holder for holder in self._by_number if holder is not None]
        _, new_slot = self._arrays.compact([holder.number for holder in kept])
        for number, holder in enumerate(kept):
            holder.number = number
            holder.gpus = {gpu: int(new_slot[slot]) for gpu, slot in holder.gpus.items()}
        self._by_number = list(kept)
        self._clear_groups()

    def _clear_groups(self) -> None:
        self.epoch += 1
        self._groups.clear()
        self.repeated.clear()
        self._arrays.clear_groups()
