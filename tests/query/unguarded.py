"""A query process whose guard is gone: it runs any statement, and Python too, as an attacker inside it would.

What it still cannot do is due to the kernel alone.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from sinks.query import child, confine, wire

#: In the place of `process._START`.
START = "import sys; sys.path[:] = sys.argv[1:]; from tests.query.unguarded import main; main()"
PYTHON = "python: "


class Unguarded:
    """Runs what it is told, in a session without limits that may write."""

    def __init__(self, setup: wire.Setup) -> None:
        from sinks.query.session import local_client  # starts threads

        assert isinstance(setup.source, wire.StoreFiles)
        self._client = local_client(setup.scratch_dir, setup.source.engine_dir)

    def run(self, request: wire.Request, out: BinaryIO) -> int:
        """Write what came of it, or how it failed, as one text."""
        try:
            if request.sql.startswith(PYTHON):
                found = repr(eval(request.sql.removeprefix(PYTHON)))
            else:
                found = str(self._client.query(request.sql).result_rows)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the test looks at it
            found = f"failed: {fault}"
        out.write(json.dumps(found).encode())
        return 1

    def reads(self) -> None:
        """Nothing says so."""


def main() -> None:
    """Serve, confined as ever, but for the priority: see `tests.query.priority`."""
    confine.lower_priority = lambda nice: None
    child._runner = Unguarded
    child.main()
