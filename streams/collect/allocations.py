"""Which job holds which GPUs of a node, written by a scheduler's collector and read by collectors that sample GPUs.

A file of JSON, replaced as a whole. It must not be asked about the past: exporters report the present.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from streams.collect.collector import SourceUnavailableError
from streams.errors import TrainfareError


class JobHolder(NamedTuple):
    """An attempt of a job."""

    job_id: str
    attempt: int


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """GPUs of one node that an attempt holds: indices or UUIDs; without any it holds all of them.

    `pod` ("namespace/name") names the holder where an exporter says which pod has a GPU.
    """

    node: str
    job_id: str
    attempt: int = 1
    gpus: Sequence[str] = ()
    pod: str = ""


class _File(msgspec.Struct):
    allocations: list[Allocation]


class Allocations:
    """The present holders of GPUs."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._of_gpu: dict[tuple[str, str], JobHolder] = {}
        self._of_node: dict[str, list[JobHolder]] = {}
        self._of_pod: dict[str, JobHolder] = {}
        for each in allocations:
            holder = JobHolder(each.job_id, each.attempt)
            if each.pod:
                self._of_pod[each.pod] = holder
            for gpu in each.gpus:
                self._of_gpu[each.node, gpu] = holder
            if not each.gpus and not each.pod:
                self._of_node.setdefault(each.node, []).append(holder)

    def of_pod(self, pod: str) -> JobHolder | None:
        """Return the job of a pod ("namespace/name")."""
        return self._of_pod.get(pod)

    def of_gpu(self, node: str, names: Sequence[str]) -> JobHolder | None:
        """Return who holds a GPU with one of these names; None if nobody does, or if it is ambiguous."""
        for name in names:
            holder = self._of_gpu.get((node, name))
            if holder is not None:
                return holder
        whole = self._of_node.get(node, ())
        return whole[0] if len(whole) == 1 else None


def read_allocations(path: Path) -> Allocations:
    """Return the allocations of a file.

    Raises:
        SourceUnavailableError: It is missing or no such file.
    """
    try:
        return Allocations(msgspec.json.decode(path.read_bytes(), type=_File).allocations)
    except OSError as fault:
        raise SourceUnavailableError(f"{path}: {fault.strerror}; a scheduler's collector writes it") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"{path}: {fault}") from None


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
        raise TrainfareError(f"{path} cannot be written: {fault.strerror}; see write_allocations") from None
