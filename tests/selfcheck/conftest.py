"""An embedded store for each module, empty at the start of each test."""

from tests.sinks.conftest import shared, store

__all__ = ["shared", "store"]
