"""Maps holders and GPUs to the numbers that the kernels use.

Must not hold a quantity: what a number stands for in the arrays is the business of Arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.events import GpuEvent
from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.blob_form import HolderPart

# An exporter that permutes its GPUs makes many message shapes.
_SPARE_GROUPS = 2_000

Key = tuple[str, int, str]
"""job_id, attempt, node."""

Shape = tuple[str, str, int, tuple[str, ...]]
"""Of a message: node, job_id, attempt, GPUs."""


class Holder:
    """The GPUs of one node that one attempt was seen on."""

    __slots__ = ("attempt", "exported_gpus", "gpus", "job_id", "node", "number", "packed", "part")

    def __init__(self, number: int, job_id: str, attempt: int, node: str) -> None:
        self.number = number
        self.job_id = job_id
        self.attempt = attempt
        self.node = node
        # GPU id -> slot, in the order of first appearance: a GPU's place is its ordinal.
        self.gpus: dict[str, int] = {}
        self.exported_gpus = -1  # how many of them an export named; -1: the holder itself is new
        self.packed = b""  # its old rows, see OldRows
        self.part: HolderPart | None = None  # what increments say of it while nothing is new


class HolderNames:
    """Look-ups from names to numbers; a message shape seen before costs one."""

    def __init__(self, arrays: CoverageArrays) -> None:
        self._arrays = arrays
        self._holders: dict[Key, Holder] = {}
        self._of_attempt: dict[tuple[str, int], list[Holder]] = {}
        self._of_job: dict[str, list[Holder]] = {}
        self._by_number: list[Holder | None] = []
        # Attempts whose holders keep no counts, those still to be seen included.
        self._uncounted: dict[str, set[int]] = {}
        self._groups: dict[Shape, int] = {}
        self.epoch = 0  # numbers of groups hold as long as it stays
        # Group -> for each distinct GPU its positions in the record, where a record repeats a GPU.
        self.repeated: dict[int, list[list[int]]] = {}

    def trim_groups(self) -> None:
        """Forget all groups when they are too many."""
        if len(self._groups) > _SPARE_GROUPS + 4 * self._arrays.slots:
            self._clear_groups()

    def groups_of(self, records: Sequence[GpuEvent]) -> list[int]:
        """The group of each record; 0, which has no slot, for idle GPUs."""
        known = self._groups
        found = []
        for record in records:
            if not record.job_id:
                found.append(0)
                continue
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
        """The groups of several shapes that repeat no GPU; 0 for idle ones.  What they bring is made at once."""
        wanted = list(shapes)
        known = self._groups
        new = list(dict.fromkeys(shape for shape in wanted if shape[1] and shape not in known))
        known.update(zip(new, self._new_groups(new), strict=True))
        return [known[shape] if shape[1] else 0 for shape in wanted]

    def _new_groups(self, shapes: Sequence[Shape]) -> range:
        """New groups of these shapes, with the slots that are missing."""
        arrays = self._arrays
        next_slot = arrays.slots
        holders: list[int] = []
        ordinals: list[int] = []
        slots: list[int] = []
        ends: list[int] = []
        for node, job_id, attempt, gpus in shapes:
            holder = self.holder(job_id, attempt, node)
            places = holder.gpus
            for gpu in gpus:
                slot = places.get(gpu)
                if slot is None:
                    holders.append(holder.number)
                    ordinals.append(len(places))
                    slot = places[gpu] = next_slot
                    next_slot += 1
                slots.append(slot)
            ends.append(len(slots))
        first = arrays.groups
        arrays.add_slots(holders, ordinals)
        arrays.add_groups(slots, ends)
        return range(first, first + len(ends))

    def holder(self, job_id: str, attempt: int, node: str) -> Holder:
        """The holder, made if there is none."""
        key = job_id, attempt, node
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = Holder(self._arrays.add_holder(self._counting(*key[:2])), *key)
            self._of_attempt.setdefault((job_id, attempt), []).append(holder)
            self._of_job.setdefault(job_id, []).append(holder)
            self._by_number.append(holder)
        return holder

    def _counting(self, job_id: str, attempt: int) -> bool:
        return attempt not in self._uncounted.get(job_id, ())

    def drop_counts(self, job_id: str, attempt: int) -> None:
        """Holders of the attempt that are still to be made keep no counts."""
        self._uncounted.setdefault(job_id, set()).add(attempt)

    def slot(self, holder: Holder, gpu: str) -> int:
        """The slot of a holder's GPU, made if there is none."""
        slot = holder.gpus.get(gpu)
        if slot is None:
            slot = self._arrays.slots
            self._arrays.add_slots([holder.number], [len(holder.gpus)])
            holder.gpus[gpu] = slot
        return slot

    def by_number(self, number: int) -> Holder:
        """The holder of that number, or KeyError if it was forgotten."""
        holder = self._by_number[number] if 0 <= number < len(self._by_number) else None
        if holder is None:
            raise KeyError(f"no holder {number}")
        return holder

    def by_numbers(self, numbers: Sequence[int]) -> list[Holder]:
        """The holders of these numbers, or KeyError if one was forgotten."""
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
        """Whether it was not forgotten."""
        return self._holders.get((holder.job_id, holder.attempt, holder.node)) is holder

    def forget(self, job_id: str) -> list[Holder]:
        """Drop the names of a job; its holders, for their arrays to be freed."""
        self._uncounted.pop(job_id, None)
        gone = self._of_job.pop(job_id, [])
        for holder in gone:
            del self._holders[holder.job_id, holder.attempt, holder.node]
            self._of_attempt.pop((holder.job_id, holder.attempt), None)
            self._by_number[holder.number] = None
        if gone:
            self._clear_groups()
        return gone

    def compact_if_sparse(self, spare: int) -> None:
        """Compact where more than half, and more than so many, belong to nobody."""
        if self._arrays.is_sparse(spare):
            self.compact()

    def compact(self) -> None:
        """Let the arrays shrink, and take over the new numbers."""
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
