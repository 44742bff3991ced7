"""Reads dcgm-exporter's Prometheus text: for each GPU its labels and the fields that a sample is made of.

It must not know jobs. Text of an exporter is untrusted: what does not parse is skipped, its size is limited by the caller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: DCGM's field names -> name of the value here; only GPU_UTIL has another unit than samples.
FIELDS: Final[Mapping[str, str]] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "util_ratio",
    "DCGM_FI_DEV_GPU_UTIL": "util_percent",
    "DCGM_FI_PROF_SM_ACTIVE": "sm_ratio",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_ratio",
    "DCGM_FI_DEV_FB_USED": "memory_used_mib",
    "DCGM_FI_DEV_POWER_USAGE": "power_w",
}
#: DCGM writes 2^63 - n and the like for values that it does not have.
_BLANK_FROM: Final = 1e15

_LINE: Final = re.compile(
    rb"^("
    + b"|".join(name.encode() for name in FIELDS)
    + rb')\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\}[ \t]+(\S+)',
    re.MULTILINE,
)
_LABEL: Final = re.compile(rb'\s*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED: Final = re.compile(r'\\([\\n"])')


@dataclass(slots=True)
class GpuReading:
    """One GPU, or one MIG slice of it, in one scrape."""

    labels: Mapping[str, str]
    values: dict[str, float] = field(default_factory=dict)

    @property
    def util_ratio(self) -> float | None:
        """Return the share of time in which it did work; None: the exporter reports neither field.

        The profiling field is an average over the exporter's interval; GPU_UTIL, which slices do not have, counts any
        kernel at all.
        """
        ratio = self.values.get("util_ratio")
        if ratio is None and "util_percent" in self.values:
            ratio = self.values["util_percent"] / 100
        return ratio


class LabelCache:
    """Label sets that were parsed before: an exporter repeats them in every line of every scrape."""

    def __init__(self, at_most: int = 200_000) -> None:
        self._at_most = at_most
        self._known: dict[bytes, Mapping[str, str]] = {}

    def labels(self, text: bytes) -> Mapping[str, str]:
        """Return the labels of what stands between the braces."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= self._at_most:
                self._known.clear()
            found = self._known[text] = {
                name.decode(): _unescaped(value.decode("utf-8", "replace"))
                for name, value in _LABEL.findall(text)
            }
        return found


def read(text: bytes, cache: LabelCache) -> list[GpuReading]:
    """Return the GPUs of one exporter, in the order in which it names them."""
    found: dict[tuple[str, str], GpuReading] = {}
    for line in _LINE.finditer(text):
        name, labels_text, value_text = line.groups()
        labels = cache.labels(labels_text)
        gpu = labels.get("gpu") or labels.get("UUID")
        value = _number(value_text)
        if not gpu or value is None:
            continue
        reading = found.setdefault((gpu, labels.get("GPU_I_ID", "")), GpuReading(labels))
        reading.values[FIELDS[name.decode()]] = value
    return list(found.values())


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < _BLANK_FROM else None


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], value) if "\\" in value else value
