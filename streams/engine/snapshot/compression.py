"""Compresses snapshots."""

from __future__ import annotations

from typing import Final

import zstandard

LEVEL: Final = 1


def new_compressor() -> zstandard.ZstdCompressor:
    """A compressor with the settings of snapshots; not to be shared by threads."""
    return zstandard.ZstdCompressor(level=LEVEL)
