"""Which part of a GPU a MIG instance is: its compute slices, of those that GPUs of its product have."""

from __future__ import annotations

import re
from typing import Final

_SLICES: Final = 7
#: Products that are cut into fewer.
_FEWER: Final = (
    (re.compile(r"(?:.*[^a-z0-9])?a30(?:[^a-z0-9].*)?", re.IGNORECASE), 4),
    (re.compile(r".*rtx[-_ ]?pro[-_ ]?6000.*", re.IGNORECASE), 4),
    (re.compile(r".*rtx[-_ ]?pro[-_ ]?4500.*", re.IGNORECASE), 2),
)
#: Instances that only an A30 has, whatever is said of the product.
_OF_A30: Final = re.compile(r"(?:1g\.6gb|2g\.12gb|4g\.24gb)(?![0-9])", re.IGNORECASE)


def slices_of(product: str, profile: str = "") -> int:
    """How many compute slices a GPU has; `profile`, as 1g.10gb, tells where the product is not known."""
    if not product and _OF_A30.match(profile):
        return 4
    return next((count for named, count in _FEWER if named.fullmatch(product)), _SLICES)
