"""Settings of the usage tests. A first call compiles, so no example has a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("usage", deadline=None)
settings.load_profile("usage")
