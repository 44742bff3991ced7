"""Settings of the kernel tests. A first call compiles, so no example has a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
