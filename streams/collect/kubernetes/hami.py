"""GPUs that HAMi or Volcano splits: a node offers each GPU many times, and a pod holds a share of one. Pure functions.

A container names how many it has a share of (`nvidia.com/gpu`, `volcano.sh/vgpu-number`) and, of each of them, cores or memory in percent,
or memory in MiB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from streams.collect.kubernetes.objects import Quantity
from streams.collect.kubernetes.quantities import milli

GPU: Final = "nvidia.com/gpu"
VGPU: Final = "volcano.sh/vgpu-number"


class _Family(NamedTuple):
    number: str
    percents: tuple[str, ...]
    memory: str


_FAMILIES: Final = (
    _Family(GPU, ("nvidia.com/gpucores", "nvidia.com/gpumem-percentage"), "nvidia.com/gpumem"),
    _Family(VGPU, ("volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage"), "volcano.sh/vgpu-memory"),
)
NUMBERS: Final = tuple(family.number for family in _FAMILIES)
SHARES: Final = frozenset(name for family in _FAMILIES for name in (*family.percents, family.memory))
#: What a pod holds, as devices: hundredths of GPUs; MiB of GPUs' memory, and of how many GPUs.
PERCENT: Final = "hami.percent"
MIB: Final = "hami.mib"
MIB_GPUS: Final = "hami.mib_gpus"
HELD: Final = (PERCENT, MIB, MIB_GPUS)

_REGISTERS: Final = (
    "hami.io/node-nvidia-register",
    "4pd.io/node-nvidia-register",
    "volcano.sh/node-vgpu-register",
)
#: What the schedulers write on a pod: "GPU-1,NVIDIA,11517,25:;", an entry for each GPU and a semicolon after each container.
_GIVEN: Final = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
_GIVEN_GPU: Final = re.compile(r"(?:^|[:;])([^,:;\s]{1,128}),[^,:;]{0,128},\d{1,8},\d{1,8}(?=[:;]|$)")
_GIVEN_CHARS: Final = 4096
#: The first GPU: "GPU-1,10,46068,100,..." or `[{"id":"GPU-1","count":10,"devmem":46068,...}]`.
_SPLIT: Final = re.compile(r'[^,:{}\[\]"]{1,128},(\d{1,4}),(\d{1,8}),')
_SPLIT_JSON: Final = re.compile(r'"(count|devmem)"\s*:\s*(\d{1,8})')


def split_of(annotations: Mapping[str, str]) -> tuple[int, int]:
    """How often a node offers each of its GPUs, and the MiB of one; zeros where nobody splits them."""
    text = next((annotations[name] for name in _REGISTERS if annotations.get(name)), "")[:4096]
    if text.lstrip().startswith("["):
        found: dict[str, int] = {}
        for name, number in _SPLIT_JSON.findall(text):
            found.setdefault(name, int(number))
        return found.get("count", 0), found.get("devmem", 0)
    first = _SPLIT.match(text)
    return (int(first[1]), int(first[2])) if first else (0, 0)


def is_split(limits: Mapping[str, Quantity]) -> bool:
    """Whether a container holds shares of GPUs."""
    return _family(limits) is not None


def _family(limits: Mapping[str, Quantity]) -> _Family | None:
    for family in _FAMILIES:
        # Volcano's are always split; nvidia.com/gpu alone is a whole one.
        if family.number in limits and (
            family.number == VGPU or {*family.percents, family.memory} & limits.keys()
        ):
            return family
    return None


def held(limits: Mapping[str, Quantity], what: str) -> int:
    """How much a container holds of one of `HELD`.

    Cores and memory are both taken from a GPU, so that the larger of them is what nobody else can have.

    Raises:
        ValueError: A quantity is none.
    """
    family = _family(limits)
    if family is None:
        return 0
    gpus = milli(limits[family.number]) // 1000
    percents = [min(milli(limits[name]) // 1000, 100) for name in family.percents if name in limits]
    mib = milli(limits.get(family.memory, 0)) // 1000
    amounts = {PERCENT: max(percents, default=0), MIB: mib, MIB_GPUS: int(mib > 0 and not any(percents))}
    if not any(percents) and not mib:
        amounts[PERCENT] = 100  # 0 is read as no limit
    return gpus * amounts[what]


def held_share(devices: Mapping[str, int], memory_mib: int) -> Fraction:
    """The thousandths of GPUs that a pod holds; memory is a whole GPU where its size is not known."""
    mib, gpus = devices.get(MIB, 0), devices.get(MIB_GPUS, 0)
    by_memory = Fraction(mib * 1000, memory_mib) if memory_mib else Fraction(gpus * 1000)
    return max(Fraction(devices.get(PERCENT, 0) * 10), by_memory)


def gpus_of(annotations: Mapping[str, str]) -> Counter[str]:
    """Which GPUs the scheduler gave a pod, by their ids, and how many shares of each; empty where it says none."""
    text = next((annotations[name] for name in _GIVEN if annotations.get(name)), "")[:_GIVEN_CHARS]
    return Counter(_GIVEN_GPU.findall(text))
