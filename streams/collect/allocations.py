"""Which job holds which GPUs of a node, written by a scheduler's collector and read by collectors of GPUs and traffic.

A file of JSON, replaced as a whole. `Allocations` say whose a GPU was when it was sampled; `PastAllocations` whose a node
was in the time of a flow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from streams.collect.collector import SourceUnavailableError
from streams.errors import TrainfareError

#: How long allocations that are over are kept: so late is hardly any log.
_KEPT_MS: Final = 86_400_000
#: How far a scheduler's clock may be ahead of that of a node.
_CLOCKS_DIFFER_MS: Final = 60_000


#: In place of a GPU's name: all of its node, where the scheduler knows that and not their names.
ALL_GPUS: Final = "*"


class JobHolder(NamedTuple):
    """An attempt of a job."""

    job_id: str
    attempt: int


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """GPUs of one node that an attempt holds: indices or UUIDs, or `ALL_GPUS`; without any it holds all of them.

    `pod` ("namespace/name") names the holder where an exporter says which pod has a GPU, `addresses` are those of the
    pod where it has its own. It is held from `from_ms` until `until_ms`, in ms since 1970; without them it always was,
    and is still.
    """

    node: str
    job_id: str
    attempt: int = 1
    gpus: Sequence[str] = ()
    pod: str = ""
    addresses: Sequence[str] = ()
    from_ms: int = 0
    until_ms: int | None = None

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether it was held at some instant of an interval."""
        return self.from_ms < until_ms and (self.until_ms is None or from_ms < self.until_ms)


class _File(msgspec.Struct):
    allocations: list[Allocation]


class Allocations:
    """The holders of GPUs, now and a while ago."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._of_gpu: dict[tuple[str, str], list[Allocation]] = {}
        self._of_node: dict[str, list[Allocation]] = {}
        self._of_pod: dict[str, list[Allocation]] = {}
        for each in allocations:
            if each.pod:
                self._of_pod.setdefault(each.pod, []).append(each)
            for gpu in each.gpus:
                self._of_gpu.setdefault((each.node, gpu), []).append(each)
            if not each.gpus and not each.pod:
                self._of_node.setdefault(each.node, []).append(each)

    def of_pod(self, pod: str, from_ms: int, until_ms: int) -> JobHolder | None:
        """Return whose a pod ("namespace/name") was at the end of an interval, as `of_gpu` does."""
        return _holder_at_end(self._of_pod.get(pod, ()), from_ms, until_ms)

    def node_of_pod(self, pod: str, from_ms: int, until_ms: int) -> str:
        """On which node a pod was; empty where that is not known."""
        nodes = {each.node for each in self._of_pod.get(pod, ()) if each.overlaps(from_ms, until_ms)}
        return nodes.pop() if len(nodes) == 1 else ""

    def of_gpu(self, node: str, names: Sequence[str], from_ms: int, until_ms: int) -> JobHolder | None:
        """Who held a GPU with one of these names at the end of an interval; None if nobody, or if it is ambiguous.

        Where nobody did then, it is who held it at any time of the interval, else who got it within a minute after: clocks differ.
        """
        for name in (*names, ALL_GPUS):
            holder = _holder_at_end(self._of_gpu.get((node, name), ()), from_ms, until_ms)
            if holder is not None:
                return holder
        return _holder_at_end(self._of_node.get(node, ()), from_ms, until_ms)


def _holder_at_end(found: Sequence[Allocation], from_ms: int, until_ms: int) -> JobHolder | None:
    """The holder in the last ms of an interval, else in all of it or soon after: one of several is not guessed."""
    holders = (
        _holders(found, until_ms - 1, until_ms)
        or _holders(found, from_ms, until_ms)
        or _holders(found, until_ms, until_ms + _CLOCKS_DIFFER_MS)
    )
    return next(iter(holders)) if len(holders) == 1 else None


class PastAllocations:
    """The holders of nodes, pods and addresses over time."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._of_node: dict[str, list[Allocation]] = {}
        self._of_pod: dict[str, list[Allocation]] = {}
        self._of_address: dict[str, list[Allocation]] = {}
        for each in allocations:
            if each.pod:
                self._of_pod.setdefault(each.pod, []).append(each)
            for address in each.addresses:
                self._of_address.setdefault(address, []).append(each)
            if not each.addresses:  # else the rest of the node's traffic is not its
                self._of_node.setdefault(each.node, []).append(each)

    def nodes(self) -> Iterable[str]:
        """The names of the nodes that were held."""
        return self._of_node.keys()

    def has_address(self, address: str) -> bool:
        """Whether a pod ever had it."""
        return address in self._of_address

    def node_of_address(self, address: str, from_ms: int, until_ms: int) -> str | None:
        """Return on which node the pod with an address was; None without one, or with several."""
        found = self._of_address.get(address, ())
        nodes = {each.node for each in found if each.overlaps(from_ms, until_ms)}
        return next(iter(nodes)) if len(nodes) == 1 else None

    def of_node(self, node: str, from_ms: int, until_ms: int) -> set[JobHolder]:
        """Who held a node, or GPUs of it, at some instant of an interval."""
        return _holders(self._of_node.get(node, ()), from_ms, until_ms)

    def of_pod(self, pod: str, from_ms: int, until_ms: int) -> set[JobHolder]:
        """Return whose a pod ("namespace/name") was."""
        return _holders(self._of_pod.get(pod, ()), from_ms, until_ms)

    def of_address(self, address: str, from_ms: int, until_ms: int) -> set[JobHolder]:
        """Return whose pod had an address."""
        return _holders(self._of_address.get(address, ()), from_ms, until_ms)


def _holders(allocations: Iterable[Allocation], from_ms: int, until_ms: int) -> set[JobHolder]:
    return {JobHolder(each.job_id, each.attempt) for each in allocations if each.overlaps(from_ms, until_ms)}


def read_allocations(path: Path) -> Allocations:
    """The allocations of a file.

    Raises:
        SourceUnavailableError: It is missing or no such file.
    """
    return Allocations(stored_allocations(path))


def stored_allocations(path: Path) -> list[Allocation]:
    """What a file holds.

    Raises:
        SourceUnavailableError: It is missing or no such file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).allocations
    except OSError as fault:
        raise SourceUnavailableError(f"{path}: {fault.strerror}; a scheduler's collector writes it") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"{path}: {fault}") from None


def with_past(
    path: Path, present: Sequence[Allocation], ends_ms: Mapping[JobHolder, int], now_ms: int
) -> list[Allocation]:
    """The present allocations, and those of a file that are over, for a day: logs of traffic come later.

    `ends_ms`: when attempts ended; where that is not known, an allocation that is gone is over now.
    """
    try:
        former = stored_allocations(path)
    except SourceUnavailableError:
        former = []  # there is none yet, or it is replaced
    held = {_without_times(each) for each in present}
    past = []
    for each in former:
        if _without_times(each) in held:
            continue
        ended_ms = ends_ms.get(JobHolder(each.job_id, each.attempt), now_ms)
        until_ms = ended_ms if each.until_ms is None else each.until_ms
        if until_ms > now_ms - _KEPT_MS:
            past.append(msgspec.structs.replace(each, until_ms=until_ms))
    return [*present, *past]


def _without_times(each: Allocation) -> tuple[object, ...]:
    return each.node, each.job_id, each.attempt, tuple(each.gpus), each.pod


def write_allocations(path: Path, allocations: Sequence[Allocation]) -> None:
    """Replace the allocations of a file as a whole; nothing is written where they are the same.

    Raises:
        TrainfareError: It cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(_File(list(allocations))), indent=1)
    temporary = Path(f"{path}.new.{os.getpid()}")
    try:
        if path.exists() and path.read_bytes() == text:
            return
        temporary.write_bytes(text)
        temporary.replace(path)
    except OSError as fault:
        raise TrainfareError(
            f"{path} cannot be written: {fault.strerror}; see allocations_output_file"
        ) from None
