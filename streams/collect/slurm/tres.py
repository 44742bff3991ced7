"""Slurm's texts about resources: TRES counts, GPUs of a node, lists of nodes. Pure functions of text.

Every text may be hostile; each function raises ValueError rather than return much more than it was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from schemas.wire_types import MAX_NODES
from streams.accounts.accelerators import is_accelerator
from streams.collect.mig import slices_of

_COUNT: Final = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))?([KMGTP]?)")
_UNIT: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
#: "gpu:h100:2(IDX:0-1,3)", "gpu:2(S:0)", "shard:a100:4(0/4,4/4)"
_GRES: Final = re.compile(r"([^:,()=]+)(?::([^:,()=]+))?:(\d{1,9})(?:\(([^()]*)\))?")
_PART: Final = re.compile(r"([^\[\],]*)(?:\[([\d,-]*)\])?")
_GPUS_AT_MOST: Final = 1_024
#: A MIG instance as a type of GPU, by Slurm's AutoDetect or by hand: "a100_3g.20gb", "1g.10gb", "nvidia_a30_2g.12gb+me".
_MIG: Final = re.compile(r"(?:(.+?)[_.-])?(([1-7])g\.\d{1,4}gb)(?:[+_.-].*)?", re.IGNORECASE)
#: What resources are read by; counts of others, such as energy, may be anything.
_READ: Final = ("cpu", "mem", "node")
#: Generic resources that are read, or are a part of one that is.
_KNOWN: Final = ("gres/gpu:", "gres/shard", "gres/mps", "gres/gpumem", "gres/gpuutil")


class GpusOfNode(NamedTuple):
    """GPUs of one type that a job holds on a node; `indices` is empty where Slurm does not count them."""

    type: str
    number: int
    indices: tuple[str, ...]


def tres_counts(text: str) -> dict[str, int]:
    """What "cpu=2,mem=4G,gres/gpu:h100=1" counts: name -> number; memory in MiB.

    Raises:
        ValueError: It is no such text.
    """
    found: dict[str, int] = {}
    for each in text.split(",") if text else ():
        name, _, count = each.rpartition("=")
        match = _COUNT.fullmatch(count)
        if match is None and name and not is_read(name):
            continue
        if not name or match is None:
            raise ValueError(f"{text[:100]!r} is no list of resources")
        whole, decimals, unit = match.groups()
        plain = "M" if name == "mem" else ""
        factor = _UNIT[unit or plain] // _UNIT[plain] if name == "mem" and unit != "K" else _UNIT[unit]
        digits = decimals or ""
        found[name] = int(whole + digits) * factor // 10 ** len(digits)
    return found


def is_read(name: str) -> bool:
    """Whether a count of a resource means anything here."""
    return name in _READ or (name.startswith("gres/") and name not in ("gres/gpumem", "gres/gpuutil"))


def gpus_of_node(text: str) -> list[GpusOfNode]:
    """The GPUs in one entry of squeue's `gres_detail`.

    Raises:
        ValueError: It has more indices than a node may have.
    """
    found = []
    for name, type_, count, detail in _GRES.findall(text):
        if name != "gpu":
            continue
        _, is_there, indices = detail.partition("IDX:")
        counted = tuple(map(str, _numbers(indices))) if is_there and indices != "N/A" else ()
        found.append(GpusOfNode(type_, int(count), counted))
    return found


def node_names(text: str) -> list[str]:
    """The names in a list such as "n[1-3,07],login", in its order.

    Raises:
        ValueError: It is no such list, or has more nodes than an event may name.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        end = _end_of_name(text, at)
        found += _expanded(text[at:end], MAX_NODES - len(found))
        at = end + 1
    return found


def _end_of_name(text: str, at: int) -> int:
    """Where the comma behind the name stands that begins here: not one in brackets."""
    inside = False
    for place in range(at, len(text)):
        if text[place] in "[]":
            inside = text[place] == "["
        elif text[place] == "," and not inside:
            return place
    return len(text)


def _expanded(name: str, most: int) -> list[str]:
    """The names that one with brackets stands for; a second pair of brackets multiplies them."""
    found = [""]
    rest = name
    while rest:
        match = _PART.match(rest)
        if match is None or not match.end():
            raise ValueError(f"{name[:100]!r} is no list of nodes")
        before, inside = match.groups()
        endings = [""] if inside is None else list(_padded(inside, most))
        if len(found) * len(endings) > most:
            raise ValueError(f"{name[:100]!r} is more than {MAX_NODES} nodes")
        found = [start + before + ending for start in found for ending in endings]
        rest = rest[match.end() :]
    return found


def _padded(text: str, most: int) -> Iterator[str]:
    """Yield the numbers of "1-3,07" with the zeros they are written with."""
    count = 0
    for each in text.split(","):
        low, _, high = each.partition("-")
        width, first = len(low), int(low)
        last = int(high or low)
        count += last - first + 1
        if last < first or count > most:
            raise ValueError(f"{text[:100]!r} is no list of at most {most} numbers")
        for number in range(first, last + 1):
            yield f"{number:0{width}}"


def _numbers(text: str) -> Iterator[int]:
    return (int(each) for each in _padded(text, _GPUS_AT_MOST))


class GpuUnits(Protocol):
    """What generic resources are in GPUs, as the options say."""

    shards_per_gpu: int
    mps_per_gpu: int
    gres_gpus: dict[str, float]

    @property
    def has_shards(self) -> bool:
        """Whether the options say how many shards a GPU has."""


def gpu_milli(tres: Mapping[str, int], units: GpuUnits) -> int:
    """Thousandths of GPUs that a job holds: whole ones, shards and MPS shares, and other generic resources that are named."""
    return sum(_kinds_milli(tres, units))


def node_gpu_milli(tres: Mapping[str, int], units: GpuUnits) -> int:
    """Thousandths of GPUs that a node has: its shards and MPS shares are of the GPUs that it counts beside them."""
    whole, shards, mps, others = _kinds_milli(tres, units)
    return (whole or max(shards, mps)) + others


def _kinds_milli(tres: Mapping[str, int], units: GpuUnits) -> tuple[int, int, int, int]:
    """Thousandths of GPUs: whole ones, as shards, as MPS shares, as other resources."""
    shards = _number(tres, "gres/shard") * 1000 // units.shards_per_gpu
    mps = _number(tres, "gres/mps") * 1000 // units.mps_per_gpu
    others = sum(_number(tres, f"gres/{name}") * round(gpus * 1000) for name, gpus in units.gres_gpus.items())
    typed = {name[len("gres/gpu:") :]: n for name, n in tres.items() if name.startswith("gres/gpu:")}
    untyped = max(tres.get("gres/gpu", 0) - sum(typed.values()), 0)
    whole = untyped * 1000 + sum(type_milli(type_, number) for type_, number in typed.items())
    return whole, shards, mps, others


def type_milli(type_: str, number: int) -> int:
    """Thousandths of GPUs that some of a type are: a MIG instance is the share of its GPU's slices that it has."""
    mig = _MIG.fullmatch(type_)
    if mig is None:
        return number * 1000
    return number * int(mig[3]) * 1000 // slices_of(mig[1] or "", mig[2])


def named_type(type_: str, gpu_types: Mapping[str, str]) -> str:
    """What events call a type: by the options, of a MIG instance that of its GPU; empty where that has no name."""
    mig = _MIG.fullmatch(type_)
    whole = (mig[1] or "") if mig else type_
    return gpu_types.get(type_) or gpu_types.get(whole, whole)


def _number(tres: Mapping[str, int], name: str) -> int:
    """How many there are: a site may track them by type (`gres/gpu:a100`), without one, or the same ones twice."""
    typed = sum(number for each, number in tres.items() if each.startswith(f"{name}:"))
    return max(tres.get(name, 0), typed)


def _shards(tres: Mapping[str, int]) -> str:
    """Shards, each of which is then counted as a GPU."""
    shards = _number(tres, "gres/shard")
    return f"{shards} gres/shard" if shards else ""


def unknown_accelerators(tres: Mapping[str, int], units: GpuUnits) -> str:
    """What is an accelerator by its name and nothing says how many GPUs one is, with the counts; empty where there are none."""
    named = {f"gres/{name}" for name in units.gres_gpus}
    return ", ".join(
        f"{number} {name[:100]}"
        for name, number in tres.items()
        if number
        and name.startswith("gres/")
        and is_accelerator(name)
        and name != "gres/gpu"
        and not name.startswith(_KNOWN)
        and name.partition(":")[0] not in named
    ) or ("" if units.has_shards else _shards(tres))


def gpu_type(tres: Mapping[str, int], units: GpuUnits) -> str:
    """The type of all GPUs; nothing where there are several or none is named. Another resource's name is one."""
    known = ("gres/gpu", "gres/shard", "gres/mps", *(f"gres/{name}" for name in units.gres_gpus))
    held = [name for name, number in tres.items() if number and name.partition(":")[0] in known]
    types = {name.partition(":")[2] for name in held if ":" in name}
    untyped = {name.removeprefix("gres/") for name in held if name not in known[:3] and ":" not in name}
    types |= {name for name in untyped if not any(each.startswith(f"gres/{name}:") for each in held)}
    return types.pop() if len(types) == 1 else ""
