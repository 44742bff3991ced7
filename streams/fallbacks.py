"""How often another way was taken than the usual one, so that somebody sees it.

It must not be asked by logic: it counts, for this process, from zero.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

#: GPU records with a field that the byte kernel does not know, escapes, or a GPU twice: decoded one by one.
GPU_DECODED: Final = "gpu_decoded"
#: GPU messages whose text never came before: learnt by decoding one.
GPU_SHAPE: Final = "gpu_shape"
#: Fetches whose checksums were taken without the processor's own instruction.
CHECKSUM: Final = "checksum"
#: Fetches in a format of Kafka's before 0.11, made into records one by one.
OLD_FORMAT: Final = "old_format"
#: Kernels that were compiled at this start, as there is no folder to keep them in.
KERNELS: Final = "kernels_compiled"

#: Jobs that the archive should have and lacks: taken as new ones.
NOT_ARCHIVED: Final = "not_archived"

WHAT: Final = (GPU_DECODED, GPU_SHAPE, CHECKSUM, OLD_FORMAT, KERNELS, NOT_ARCHIVED)

#: By what; each is added to by one thread, or with `add`.
counts: Final[Counter[str]] = Counter()
_adding: Final = threading.Lock()


def add(what: str, count: int) -> None:
    """Count what any thread may do."""
    with _adding:
        counts[what] += count
