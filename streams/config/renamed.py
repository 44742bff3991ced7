"""Settings that have a new name: the former one is read for one minor version more, with a warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class RenamedSetting(NamedTuple):
    """A setting, its name before, and the minor version (0.2) that renamed it."""

    former: str
    name: str
    since: str


class FormerName(NamedTuple):
    """A former name that somebody still uses, and where."""

    renamed: RenamedSetting
    origin: str

    def __str__(self) -> str:
        return (
            f"{self.renamed.former} (from {self.origin}) is called {self.renamed.name} since {self.renamed.since}: "
            f"rename it, the next minor version will not read it"
        )


#: Those of this minor version; a test fails as soon as the next one still has them.
RENAMED: Final = (
    RenamedSetting("meter.backlog_max_bytes", "meter.max_backlog_bytes", "0.2"),
    RenamedSetting("query.concurrent", "query.max_concurrent", "0.2"),
    RenamedSetting("query.memory_max_bytes", "query.max_memory_bytes", "0.2"),
    RenamedSetting("query.time_max_ms", "query.max_execution_time_ms", "0.2"),
    RenamedSetting("web.max_streams_per_asker", "web.max_streams_per_client", "0.2"),
)
BY_FORMER: Final[Mapping[str, RenamedSetting]] = {each.former: each for each in RENAMED}
