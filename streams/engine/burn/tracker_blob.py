"""What the burn tracker writes into a snapshot."""

from __future__ import annotations

import msgspec

from streams.engine.alerts.episodes import Memory


class BurnTrackerBlob(msgspec.Struct):
    """What the next owner cannot know from the jobs themselves."""

    judge: Memory
    stored_ms: dict[str, int]  # ticks of stored alerts that are ahead of the snapshot
