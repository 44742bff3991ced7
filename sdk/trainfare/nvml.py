"""Reads GPUs through the driver's own library, `libnvidia-ml.so.1`, by ctypes.

What a GPU does not tell is None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char, c_double, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_UUID_BYTES = 96
_GPU_UTILIZATION = 1  # of nvmlSamplingType_t
_GRAPHICS_UTIL = 1  # of nvmlGpmMetricId_t
_GPM_VERSION = 1
_MEMORY_VERSION = 2
_SAMPLES_MAX = 4_096
_PERCENT_MAX = 102  # rounded upwards
_PROCESSES_MAX = 1_024


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _MemoryV2(ctypes.Structure):
    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class _Sample(ctypes.Structure):
    _fields_ = (("time_us", c_ulonglong), ("percent", c_uint), ("_rest_of_the_union", c_uint))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used_bytes", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class _ProcessUse(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("time_us", c_ulonglong),
        ("sm_percent", c_uint),
        ("memory_percent", c_uint),
        ("encoder_percent", c_uint),
        ("decoder_percent", c_uint),
    )


class _GpmMetric(ctypes.Structure):
    _fields_ = (("metric", c_uint), ("returned", c_int), ("value", c_double), ("_names", c_void_p * 3))


class _GpmMetrics(ctypes.Structure):
    # More room than any version of the library has metrics; it writes those that are asked for.
    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("before", c_void_p),
        ("after", c_void_p),
        ("metrics", _GpmMetric * 512),
    )


class _GpmSupport(ctypes.Structure):
    _fields_ = (("version", c_uint), ("is_supported", c_uint))


class Nvml:
    """The library, opened. Handles are numbers that it gave."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Open it.

        Raises:
            OSError: There is no such library, or it finds no driver.
        """
        self._library = ctypes.CDLL(library)
        self._readings_max = 0  #: how many readings of its use a GPU keeps; 0 until one is asked
        if not self._call("nvmlInit_v2"):
            raise OSError("no driver")

    def close(self) -> None:
        """Let go of the driver."""
        self._call("nvmlShutdown")

    def count(self) -> int:
        """How many GPUs there are."""
        count = c_uint()
        return count.value if self._call("nvmlDeviceGetCount_v2", byref(count)) else 0

    def by_index(self, index: int) -> int | None:
        """The handle of a GPU, in the order of the bus."""
        return self._handle("nvmlDeviceGetHandleByIndex_v2", c_uint(index))

    def by_uuid(self, uuid: str) -> int | None:
        """The handle of a GPU or MIG device."""
        return self._handle("nvmlDeviceGetHandleByUUID", uuid.encode("ascii", "replace"))

    def index_of(self, device: int) -> int | None:
        """The place of a GPU in the order of the bus."""
        index = c_uint()
        return index.value if self._call("nvmlDeviceGetIndex", c_void_p(device), byref(index)) else None

    def uuid_of(self, device: int) -> str:
        """The UUID of a GPU or MIG device, empty if unknown."""
        text = (c_char * _UUID_BYTES)()
        is_found = self._call("nvmlDeviceGetUUID", c_void_p(device), text, c_uint(_UUID_BYTES))
        return text.value.decode("ascii", "replace") if is_found else ""

    def mig_devices_of(self, device: int) -> list[int] | None:
        """Handles of the MIG devices of a GPU, None if MIG is off."""
        now, pending = c_uint(), c_uint()
        if (
            not self._call("nvmlDeviceGetMigMode", c_void_p(device), byref(now), byref(pending))
            or not now.value
        ):
            return None
        count = c_uint()
        if not self._call("nvmlDeviceGetMaxMigDeviceCount", c_void_p(device), byref(count)):
            return []
        found = (
            self._handle("nvmlDeviceGetMigDeviceHandleByIndex", c_void_p(device), c_uint(place))
            for place in range(min(count.value, 64))
        )
        return [each for each in found if each is not None]

    def parent_gpu_of(self, device: int) -> int | None:
        """The GPU that a MIG device is part of, None if it is no MIG device."""
        return self._handle("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", c_void_p(device))

    def gpu_instance_id_of(self, device: int) -> int | None:
        """The id of the GPU instance that a MIG device is in."""
        number = c_uint()
        is_found = self._call("nvmlDeviceGetGpuInstanceId", c_void_p(device), byref(number))
        return number.value if is_found else None

    def pids_of(self, device: int) -> list[int]:
        """The processes that compute on a GPU, as the driver numbers them."""
        count = c_uint(0)
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        if self._returned(name, c_void_p(device), byref(count), None) not in (_SUCCESS, _INSUFFICIENT_SIZE):
            return []
        room = min(count.value + 16, _PROCESSES_MAX)
        found, count = (_Process * room)(), c_uint(room)
        if not self._call(name, c_void_p(device), byref(count), found):
            return []
        return [found[place].pid for place in range(min(count.value, room))]

    def uses_since(self, device: int, since_us: int) -> list[tuple[int, int]]:
        """Processes that used a GPU's SMs since an instant of the driver's clock, and how many percent; empty where it does not say."""
        count = c_uint(0)
        name, since = "nvmlDeviceGetProcessUtilization", c_ulonglong(since_us)
        if self._returned(name, c_void_p(device), None, byref(count), since) not in (
            _SUCCESS,
            _INSUFFICIENT_SIZE,
        ):
            return []
        room = min(count.value + 16, _PROCESSES_MAX)
        found, count = (_ProcessUse * room)(), c_uint(room)
        if not self._call(name, c_void_p(device), found, byref(count), since):
            return []
        uses = [found[place] for place in range(min(count.value, room))]
        return [
            (each.pid, each.sm_percent)
            for each in uses
            if each.time_us > since_us and 0 < each.sm_percent <= _PERCENT_MAX
        ]

    def readings_since(self, device: int, since_us: int) -> tuple[list[float], int]:
        """The driver's readings of the use since an instant of its clock (us since 1970), and the newest one's.

        It keeps some for a while only: on an H200 71, one each 200 ms.
        """
        new = [each for each in self._readings(device, since_us) if each.time_us > since_us]
        newest_us = max((each.time_us for each in new), default=since_us)
        ratios = [_ratio(each.percent) for each in new]
        return [each for each in ratios if each is not None], newest_us

    def _readings(self, device: int, since_us: int) -> list[_Sample]:
        kind = c_uint()
        arguments = (c_void_p(device), c_int(_GPU_UTILIZATION), c_ulonglong(since_us), byref(kind))
        for _ in range(2):
            room = self._readings_max
            found, count = (_Sample * room)(), c_uint(room)
            returned = self._returned("nvmlDeviceGetSamples", *arguments, byref(count), found) if room else -1
            if returned == _SUCCESS:
                return found[: min(count.value, room)]
            if room and returned != _INSUFFICIENT_SIZE:
                break
            # To ask how many there may be takes a millisecond, as to read them does.
            count = c_uint(0)
            if not self._call("nvmlDeviceGetSamples", *arguments, byref(count), None):
                break
            self._readings_max = min(max(count.value, room), _SAMPLES_MAX)
        return []

    def busy_ratio(self, device: int) -> float | None:
        """The use as the driver read it last."""
        found = _Utilization()
        is_found = self._call("nvmlDeviceGetUtilizationRates", c_void_p(device), byref(found))
        return _ratio(found.gpu) if is_found else None

    def used_mib(self, device: int) -> float | None:
        """The memory in use, without what the driver reserves where it tells that apart, as nvidia-smi does."""
        apart = _MemoryV2(ctypes.sizeof(_MemoryV2) | _MEMORY_VERSION << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", c_void_p(device), byref(apart)):
            return round(int(apart.used) / 2**20, 1)
        found = _Memory()
        is_found = self._call("nvmlDeviceGetMemoryInfo", c_void_p(device), byref(found))
        return round(found.used / 2**20, 1) if is_found else None

    def power_w(self, device: int) -> float | None:
        """The power drawn, which newer GPUs average over a second."""
        milliwatts = c_uint()
        is_found = self._call("nvmlDeviceGetPowerUsage", c_void_p(device), byref(milliwatts))
        return milliwatts.value / 1000 if is_found else None

    # -- MIG: only counters of the whole interval (GPM) tell its utilization, from Hopper on -------------------

    def counts_mig_utilization(self, device: int) -> bool:
        """Whether a GPU counts the utilization of its MIG instances."""
        support = _GpmSupport(_GPM_VERSION, 0)
        is_found = self._call("nvmlGpmQueryDeviceSupport", c_void_p(device), byref(support))
        return bool(is_found and support.is_supported)

    def counters(self) -> int | None:
        """Room for the counters of a GPU instance."""
        return self._handle("nvmlGpmSampleAlloc")

    def read_counters(self, device: int, gpu_instance_id: int, counters: int) -> bool:
        """Read them; return whether that went well."""
        return self._call(
            "nvmlGpmMigSampleGet", c_void_p(device), c_uint(gpu_instance_id), c_void_p(counters)
        )

    def busy_ratio_between(self, before: int, after: int) -> float | None:
        """The use between two readings."""
        asked = _GpmMetrics(_GPM_VERSION, 1, before, after)
        asked.metrics[0].metric = _GRAPHICS_UTIL
        if not self._call("nvmlGpmMetricsGet", byref(asked)) or asked.metrics[0].returned != _SUCCESS:
            return None
        return _ratio(float(asked.metrics[0].value))

    def _handle(self, name: str, *arguments: Any) -> int | None:
        handle = c_void_p()
        return handle.value if self._call(name, *arguments, byref(handle)) else None

    def _call(self, name: str, *arguments: Any) -> bool:
        return self._returned(name, *arguments) == _SUCCESS

    def _returned(self, name: str, *arguments: Any) -> int:
        """What a function returns, -1 if this driver's library does not have it."""
        function = getattr(self._library, name, None)
        return int(function(*arguments)) if function is not None else -1


def _ratio(percent: float) -> float | None:
    """A share of time; None of garbage, which drivers report of idle GPUs at times and is no busy GPU."""
    return min(percent, 100) / 100 if 0 <= percent <= _PERCENT_MAX else None


def indexes(nvml: Nvml) -> Iterator[tuple[int, int]]:
    """Yield index and handle of each GPU that this process may open."""
    for index in range(nvml.count()):
        device = nvml.by_index(index)
        if device is not None:
            yield index, device
