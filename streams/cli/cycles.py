"""Makes Python's garbage collector run less often, and look at less, while commands load and meters run."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any, Final

# By default Python collects after every 700 new containers, of which a second of events creates tens of thousands: a
# sixth of its work. Little of what is dropped here is in cycles. An accrual of a shard holds tens of thousands until its
# rows are built: a collection in the middle of it looks at them in vain.
_COLLECT_AFTER: Final = 50_000
#: One in so many of these collections looks at the objects that survived the others, too.
_OLDER_EVERY: Final = 4
#: One in so many full collections looks at all objects, which stops a worker with 10,000 live jobs for a second; the
#: others look at what is new. At that load it comes every hour or two.
_WHOLE_EVERY: Final = 100


def collect_less_often() -> None:
    """Collect less often from now on; before modules are loaded it saves a fifth of what that takes."""
    gc.set_threshold(_COLLECT_AFTER, _OLDER_EVERY)


def collect_rarely() -> None:
    """Collect still less: call it once all modules are loaded."""
    collect_less_often()
    gc.freeze()  # modules are permanent
    gc.callbacks.append(_SurvivorFreezer())


class _SurvivorFreezer:
    """Exempts what survived a full collection from the next ones: mostly jobs, which live for hours.

    Reference counts free it all the same once it is dropped, unless it is in a cycle: that is left for the collection
    of all objects.
    """

    def __init__(self) -> None:
        self._collections = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
            return
        self._collections += 1
        if self._collections % _WHOLE_EVERY == 0:
            gc.unfreeze()
