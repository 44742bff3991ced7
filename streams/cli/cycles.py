"""Makes Python's garbage collector run less often in a process that meters.

It must not disable it: a worker lives for months.
"""

from __future__ import annotations

import gc
from typing import Final

# By default Python collects after every 700 new containers, of which a second of events creates tens of thousands: a
# sixth of its work. Little of what is dropped here is in cycles.
_COLLECT_AFTER: Final = 20_000


def collect_rarely() -> None:
    """Collect less often from now on; call it once all modules are loaded."""
    gc.freeze()  # modules are permanent
    gc.set_threshold(_COLLECT_AFTER)
