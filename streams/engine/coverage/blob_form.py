"""The msgpack encoding of a coverage blob: its parts, their dtypes and its format number."""

from __future__ import annotations

import msgspec
import numpy as np

FORMAT = 3
SLOT = np.dtype([("holder", "<i4"), ("ordinal", "<i4"), ("newest_s", "<i8"), ("from_s", "<i8")])
SUMS = ("sampled_gpu_s", "productive_gpu_ms", "memory_used_mib_max", "power_w_max")
ROW = np.dtype([("holder", "<i4"), ("minute", "<i4"), ("counted", "<i8"), *((name, "<i8") for name in SUMS)])


class HolderPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A holder and its GPUs from the first one on that earlier blobs did not name."""

    job_id: str
    attempt: int
    node: str
    counting: bool
    first_gpu: int
    gpus: list[str]
    # Whether it is complete: all its GPUs, all seconds of their rings and all its rows are here.
    whole: bool = True
    # Packed rows of a whole holder, see `streams.engine.kernels.packed_rows`; all are of earlier minutes.
    packed: bytes = b""
    packed_to: int = 0


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Arrays as little-endian bytes; `forget` is applied first."""

    format: int
    width_s: int
    forget: list[str]
    holders: list[HolderPart]
    slots: bytes
    cells: bytes
    sm_cells: bytes
    tensor_cells: bytes
    rows: bytes
    sm_rows: bytes
    tensor_rows: bytes
    counts: bytes
    #: Of each slot until when it worked last; empty in those that former versions wrote.
    worked: bytes = b""


class _Format(msgspec.Struct, array_like=True):
    """The format number of a blob of any format."""

    format: int


def read(data: bytes) -> Blob:
    """Decode a blob.

    Raises:
        ValueError: It has another format.
    """
    version = msgspec.msgpack.decode(data, type=_Format).format
    if version != FORMAT:
        raise ValueError(f"coverage format {version}, this version reads {FORMAT}")
    return msgspec.msgpack.decode(data, type=Blob)
