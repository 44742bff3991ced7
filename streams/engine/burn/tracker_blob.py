"""What a watch remembers, in a snapshot."""

from __future__ import annotations

import msgspec

from streams.engine.alerts.episodes import Memory
from streams.engine.windows.burn_rows import LastRow


class BurnTrackerBlob(msgspec.Struct):
    """What of a watch the next owner cannot know from the jobs themselves."""

    judge: Memory
    written: list[LastRow] | None  # of a base of format 1 only: without it some rows are written again
    # Ticks of stored alerts that are ahead of it; absent in snapshots from before they were looked at.
    stored_ms: dict[str, int] = {}
