"""Tells whether a job's `cloud` and a bill's provider are the same, however each spells it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Each by the spellings in use, without case, spaces and punctuation.
_KNOWN: Final = {
    "aws": ("aws", "amazon", "amazonwebservices", "amazonec2"),
    "azure": ("azure", "microsoft", "microsoftazure"),
    "gcp": ("gcp", "google", "googlecloud", "googlecloudplatform"),
    "oci": ("oci", "oracle", "oraclecloud", "oraclecloudinfrastructure"),
}
_NAMES: Final = {spelling: name for name, spellings in _KNOWN.items() for spelling in spellings}


@lru_cache(maxsize=4_096)
def same_provider(cloud: str, provider: str) -> bool:
    """Whether the two may be the same; what is not named, or known of neither, may be anything."""
    here, there = _plain(cloud), _plain(provider)
    if not here or not there or here.startswith(there) or there.startswith(here):
        return True
    known, other = _NAMES.get(here), _NAMES.get(there)
    return known == other


def _plain(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())
