"""Tells by its name whether something is an accelerator: a resource, a generic resource of Slurm, a label of a runner."""

from __future__ import annotations

import re
from typing import Final

_CHARS: Final = 320
_WORDS: Final = re.compile(
    r"(?:.*[^a-z])?(?:v?gpus?|npus?|tpus?|neuron(?:core|device)?s?|gaudi\d?|hpu|i915|xe|ascend\w*|mlu\w*|dcu|accelerators?"
    r"|a(?:2|10g?|16|30|40|100|800)|b[123]00|h(?:20|100|200|800)|l(?:4|20|40s?)|t4|gb[123]00|mi\d{3}[a-z]?|[pv]100|rtx\w*)(?:[^a-z].*)?"
)


def is_accelerator(name: str) -> bool:
    """Whether a name has the word for an accelerator in it, or a common type of one."""
    return _WORDS.fullmatch(name.lower()[:_CHARS]) is not None
