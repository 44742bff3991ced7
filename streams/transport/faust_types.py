"""The names of Faust that the rest of the program uses; everything else of it stays in this package."""

from __future__ import annotations

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

__all__ = ["TP", "ConsumerNotStarted"]
