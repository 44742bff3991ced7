"""Counts how often a slow path was taken, so that operators see it.

Logic must not depend on it: it only counts, per process, from zero.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

#: GPU records decoded one by one: with a field unknown to the byte kernel, escapes, or a repeated GPU.
GPU_DECODED: Final = "gpu_decoded"
#: GPU messages with a new shape, which is learned by decoding one.
GPU_SHAPE: Final = "gpu_shape"
#: Fetches whose checksums were computed without the processor's instruction.
CHECKSUM: Final = "checksum"
#: Fetches in a format older than Kafka 0.11, decoded record by record.
OLD_FORMAT: Final = "old_format"
#: Kernels compiled at this start because there is no cache folder.
KERNELS: Final = "kernels_compiled"

#: Jobs missing from the archive, treated as new ones.
NOT_ARCHIVED: Final = "not_archived"

#: Messages, by node and GPUs, whose minutes without a job are not kept: the shard has too many such GPUs.
GPU_NOT_KEPT: Final = "gpu_not_kept"

WHAT: Final = (GPU_DECODED, GPU_SHAPE, CHECKSUM, OLD_FORMAT, KERNELS, NOT_ARCHIVED, GPU_NOT_KEPT)

#: By kind; each is incremented by one thread, or with `add`.
counts: Final[Counter[str]] = Counter()
_adding: Final = threading.Lock()


def add(what: str, count: int) -> None:
    """Count from any thread."""
    with _adding:
        counts[what] += count
