"""A small replayed store for the modules of this directory, as those of `tests/web` have it."""

from tests.web.conftest import replayed, store

__all__ = ["replayed", "store"]
