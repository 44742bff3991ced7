"""`trainfare collect nvidia-smi`: asks nvidia-smi of one node and makes a sample of each job that has GPUs there.

Whose GPU it is says the scheduler, by its allocations or its processes, else it is nobody's.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from streams.accounts.account import Account
from streams.collect.collector import EventBatch, PolledByOptions, Position, SourceUnavailableError
from streams.collect.command import answer_of
from streams.collect.gpu_samples import samples_of
from streams.collect.nvidia_smi.answers import (
    GPU_QUERY,
    PROCESS_QUERY,
    REPORT_QUERY,
    read_gpus,
    read_means,
    read_processes,
)
from streams.collect.nvidia_smi.options import Options
from streams.collect.nvidia_smi.processes import group_of, job_of

_ANSWER_BYTES_AT_MOST: Final = 2**20

Ask = Callable[[Sequence[str]], bytes]
"""Takes the arguments of nvidia-smi and returns its answer; raises SourceUnavailableError."""


class NvidiaSmiCollector(PolledByOptions):
    """Looks at whole multiples of its interval, so that two collectors of a node make equal samples."""

    name = "nvidia-smi"

    def __init__(
        self, options: Options, ask: Ask, node: str, group: Callable[[int], bytes] = group_of
    ) -> None:
        """`group`: the control groups of a process by its id."""
        self._options: Options = options
        self._ask = ask
        self._node = node
        self._group = group

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the samples of the node's GPUs.

        Raises:
            SourceUnavailableError: nvidia-smi does not answer or names no GPU, or the allocations cannot be read.
        """
        at_ms = now_ms // self.interval_ms * self.interval_ms
        if position is not None and at_ms <= int(position["at_ms"]):
            return
        allocations = self._options.gpu_allocations()
        account = Account()
        answer = self._ask(GPU_QUERY)
        readings = read_gpus(answer, self._means(account), account)
        if not readings and not account.read:
            raise SourceUnavailableError(f"{self._options.command[0]} names no GPU")
        if self._options.slurm_processes:
            pids = read_processes(self._ask(PROCESS_QUERY), account)
            readings = [each._replace(job=job_of(pids.get(each.uuid, ()), self._group)) for each in readings]
        events = samples_of(
            readings, self._node, at_ms, self._options, self._options.source, allocations, account
        )
        yield EventBatch(events, {"at_ms": at_ms}, account)

    def _means(self, account: Account) -> list[float | None]:
        """The mean utilization of each GPU; none if nvidia-smi refuses, which is said in `account`."""
        try:
            return read_means(self._ask(REPORT_QUERY))
        except SourceUnavailableError as fault:
            account.not_understood(
                "mean_missing", f"the last reading of each GPU's utilization is taken: {fault}"
            )
            return []


def open_collector(options: Options) -> NvidiaSmiCollector:
    """The collector."""

    def ask(arguments: Sequence[str]) -> bytes:
        return answer_of(
            [*options.command, *arguments],
            timeout_s=options.timeout_s,
            bytes_at_most=_ANSWER_BYTES_AT_MOST,
        )

    return NvidiaSmiCollector(options, ask, options.node or platform.node())
