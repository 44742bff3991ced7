"""Which GPUs are this process's, and how busy they were since the last sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainfare.nvml import Nvml, indexes


@dataclass
class Gpu:
    """A GPU, or a MIG device of one."""

    name: str  #: as dcgm-exporter has it: the index, with `.` and the id of the GPU instance
    device: int
    seen_us: int = 0  #: of the driver's clock
    readings: list[float] = field(default_factory=list)  #: its use, since the last look
    used_percent: list[int] = field(default_factory=lambda: [0, 0])  #: of it by our processes, and by all
    gpu_instance_id: int | None = None
    parent_gpu: int | None = None  #: the GPU that a MIG device is part of
    counters: tuple[int, int] | None = None  #: read before, and to be read


def _now_us() -> int:
    return time.time_ns() // 1000


class Gpus:
    """The GPUs of one process. For one thread."""

    def __init__(
        self,
        nvml: Nvml,
        environ: Mapping[str, str],
        pid: int,
        parent_of: Callable[[int], int],
        now_us: Callable[[], int] = _now_us,
    ) -> None:
        """`parent_of`: the parent of a process, 0 if unknown. `now_us`: the clock of the driver's readings."""
        self._nvml = nvml
        self._environ = environ
        self._pid = pid
        self._parent_of = parent_of
        self._now_us = now_us
        self._looked_us = 0
        self._known: dict[str, Gpu] = {}

    def gather(self) -> None:
        """Take the driver's readings before it forgets them; it keeps them for 14 s on an H200."""
        for gpu in self._mine():
            self._gather(gpu)

    def look(self) -> dict[str, list[Any]]:
        """Columns of a `gpu` event: how busy each was since the last look. Empty if there is nothing to tell."""
        rows, mine = [], self._mine()
        for gpu in mine:
            busy_ratio = self._busy_ratio(gpu)
            if busy_ratio is None:
                continue
            rows.append((gpu.name, round(busy_ratio, 4), self._nvml.used_mib(gpu.device), self._power_w(gpu)))
        self._looked_us = self._now_us()
        # What others do on a GPU until it is this process's again is theirs.
        self._known = {
            key: gpu for key, gpu in self._known.items() if gpu.parent_gpu is not None or gpu in mine
        }
        if not rows:
            return {}
        names, ratios, used_mib, power_w = ([row[place] for row in rows] for place in range(4))
        found: dict[str, list[Any]] = {"gpus": names, "util_ratio": ratios}
        # Optional columns are whole or absent.
        optional = {"memory_used_mib": used_mib, "power_w": power_w}
        return {**found, **{name: values for name, values in optional.items() if None not in values}}

    def _power_w(self, gpu: Gpu) -> float | None:
        return None if gpu.parent_gpu is not None else self._nvml.power_w(gpu.device)

    def _busy_ratio(self, gpu: Gpu) -> float | None:
        if gpu.parent_gpu is None or gpu.gpu_instance_id is None:
            self._gather(gpu)
            readings, gpu.readings = gpu.readings, []
            ratio = sum(readings) / len(readings) if readings else self._nvml.busy_ratio(gpu.device)
            (ours, everyones), gpu.used_percent = gpu.used_percent, [0, 0]
            # A GPU that others share in turns, or by MPS: what it did is divided as its SMs were.
            return ratio if ratio is None or not everyones else ratio * ours / everyones
        if gpu.counters is None:
            return None
        before, after = gpu.counters
        if not self._nvml.read_counters(gpu.parent_gpu, gpu.gpu_instance_id, after):
            return None
        gpu.counters = after, before
        return self._nvml.busy_ratio_between(before, after)

    def _gather(self, gpu: Gpu) -> None:
        if gpu.parent_gpu is None or gpu.gpu_instance_id is None:
            self._divide(gpu)
            new, gpu.seen_us = self._nvml.readings_since(gpu.device, gpu.seen_us)
            gpu.readings += new

    def _divide(self, gpu: Gpu) -> None:
        """Take whose the use was; nothing in a container, where the driver's numbers are not those of its processes."""
        if _is_container(self._environ):
            return
        for pid, percent in self._nvml.uses_since(gpu.device, gpu.seen_us):
            gpu.used_percent[1] += percent
            gpu.used_percent[0] += percent * self._is_ours(pid)

    def _mine(self) -> list[Gpu]:
        """Return them; where nothing names them, those that this process or a child of it computes on by now."""
        visible = self._environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            return [self._gpu(device) for device in self._named(visible)]
        is_mine = _is_anything if _is_container(self._environ) else self._computes_on
        return [self._gpu(device) for device in self._all() if is_mine(device)]

    def _all(self) -> Iterator[int]:
        for _, device in indexes(self._nvml):
            mig_devices = self._nvml.mig_devices_of(device)
            yield from [device] if mig_devices is None else mig_devices

    def _named(self, visible: str) -> Iterator[int]:
        """Yield what CUDA takes of the list: until the first name that is none."""
        seen = set()
        for name in visible.split(","):
            device = self._device_of(name.strip())
            if device is None or device in seen:
                return
            seen.add(device)
            yield device

    def _device_of(self, name: str) -> int | None:
        if name.isdigit():
            device = self._nvml.by_index(int(name))
        elif name.startswith("MIG-"):
            return self._nvml.by_uuid(name)
        else:
            matching = [
                each for _, each in indexes(self._nvml) if name and self._nvml.uuid_of(each).startswith(name)
            ]
            device = matching[0] if len(matching) == 1 else None
        if device is None:
            return None
        mig_devices = self._nvml.mig_devices_of(device)
        # Where MIG is on, CUDA takes the first device.
        return device if mig_devices is None else next(iter(mig_devices), None)

    def _computes_on(self, device: int) -> bool:
        return any(self._is_ours(pid) for pid in self._nvml.pids_of(device))

    def _is_ours(self, pid: int) -> bool:
        for _ in range(64):
            if pid == self._pid:
                return True
            if pid <= 1:
                return False
            pid = self._parent_of(pid)
        return False

    def _gpu(self, device: int) -> Gpu:
        key = self._nvml.uuid_of(device) or str(device)
        if key not in self._known:
            self._known[key] = self._described(device)
        return self._known[key]

    def _described(self, device: int) -> Gpu:
        parent_gpu = self._nvml.parent_gpu_of(device)
        gpu_instance_id = self._nvml.gpu_instance_id_of(device) if parent_gpu is not None else None
        index = self._nvml.index_of(device if parent_gpu is None else parent_gpu)
        if parent_gpu is None or gpu_instance_id is None:
            # One that this process took since the last look has worked for it since then.
            seen_us = self._looked_us or self._nvml.readings_since(device, 0)[1]
            return Gpu(str(index), device, seen_us)
        gpu = Gpu(
            f"{index}.{gpu_instance_id}", device, gpu_instance_id=gpu_instance_id, parent_gpu=parent_gpu
        )
        if self._nvml.counts_mig_utilization(parent_gpu):
            before, after = self._nvml.counters(), self._nvml.counters()
            if before and after and self._nvml.read_counters(parent_gpu, gpu_instance_id, before):
                gpu.counters = before, after
        return gpu


def parent_of(pid: int) -> int:
    """The parent of a process as /proc has it, 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _is_container(environ: Mapping[str, str]) -> bool:
    """Whether NVIDIA's container toolkit has chosen the GPUs: what is seen is this container's."""
    return environ.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")


def _is_anything(_: int) -> bool:
    return True
