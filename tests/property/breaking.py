"""Whether a broken judge is found out: by logs that are known to show it, and by others where those do no longer.

Must feed no log while a rule is broken: the right judge agrees on each before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.oracle.knowledge import Told
from tests.property.watching import Watching

Patch = Callable[[pytest.MonkeyPatch], None]
Differences = Callable[[Watching, Sequence[Told]], list[str]]


class FedLogs:
    """Logs by their seeds, each fed when it is first asked for, in the order of the seeds."""

    def __init__(
        self, told_of: Callable[[int], Sequence[Told]], differences: Differences, seeds: Sequence[int]
    ) -> None:
        self._told_of, self._differences, self._seeds = told_of, differences, seeds
        self._fed: dict[int, Watching] = {}

    def fed(self, seed: int) -> Watching:
        """One log, read to its end."""
        if seed not in self._fed:
            watching = self._fed[seed] = Watching(self._told_of(seed))
            watching.feed(len(watching.told))
            watching.checkpoint()
            differences = self._differences(watching, watching.told)
            assert not differences, f"seed {seed}: judge and oracle differ: {differences[:3]}"
        return self._fed[seed]

    def find_out(self, broken: Patch) -> bool:
        """Whether any log shows what is broken; later ones are not looked at."""
        for seed in self._seeds:
            watching = self.fed(seed)
            with pytest.MonkeyPatch.context() as patch:
                broken(patch)
                if self._differences(watching, watching.told):
                    return True
        return False
