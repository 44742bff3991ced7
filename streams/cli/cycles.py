"""How often Python looks for cycles of garbage in a process that meters.

Must not turn it off: a worker lives for months.
"""

from __future__ import annotations

import gc
from typing import Final

# Python looks for cycles after every 700 new containers, of which a second of events makes tens of thousands: a sixth
# of its work, as all that lives is looked through now and then.  Little of what is dropped here is in cycles.
_COLLECT_AFTER: Final = 20_000


def collect_rarely() -> None:
    """From now on, once all modules are loaded."""
    gc.freeze()  # they stay for good
    gc.set_threshold(_COLLECT_AFTER)
