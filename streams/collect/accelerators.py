"""Tells by its name whether something is an accelerator: a resource, a generic resource of Slurm, a label of a runner."""

from __future__ import annotations

import re
from typing import Final

_CHARS: Final = 320
_WORDS: Final = re.compile(
    r"(?:.*[^a-z])?(?:v?gpus?|npus?|tpus?|neuron(?:core|device)?s?|gaudi\d?|hpu|i915|xe|ascend\w*|mlu\w*|dcu|accelerators?"
    r"|[abhlt]\d{2,3}s?|gb?\d00|mi\d{3}[a-z]?|v100|rtx\w*)(?:[^a-z].*)?"
)


def is_accelerator(name: str) -> bool:
    """Return whether a name has the word for an accelerator in it, or a common type of one."""
    return _WORDS.fullmatch(name.lower()[:_CHARS]) is not None
