"""Run the command as a user does: another process, its exit code and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.forked import FORKER, without_settings
from tests.forked import ROOT as ROOT
from tests.new_store import begun

NOBODY = "127.0.0.1:9"
"""The discard port: nothing listens there."""


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    def one_line(self) -> str:
        """Return the one line on stderr; there must be no other, and no traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        assert lines[0].startswith("trainfare: ")
        return lines[0]


#: Verbs that only read a store, one after the other in a process that has ClickHouse loaded; not `sql`, which starts one
#: of its own. That they do the same in a process of their own is a test, test_shared_process.py.
READING: Final = frozenset(
    {
        "jobs",
        "job",
        "costs",
        "chargeback",
        "idle",
        "budgets",
        "gate",
        "explain",
        "estimate",
        "bills",
        "prices",
        "alerts",
    }
    | {"receipts", "dead-letters", "audit"}
)
MAIN: Final = "streams.cli.main:main"


def trainfare(
    *words: object,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    function: str = MAIN,
    new_store: Literal["copied", "begun"] = "copied",
    shared: bool = True,
    timeout_s: float = 240,
) -> Done:
    """Run `trainfare` with no settings but those given.

    A replay into a directory without a store finds an empty one there, unless it shall begin it by itself.  `shared`: what
    only reads a store may do so in a process where others did before.
    """
    if words[:1] == ("replay",) and "--data" in words and new_store == "copied":
        begun((cwd or Path()) / str(words[words.index("--data") + 1]))
    done = FORKER.run(
        function,
        *(str(word) for word in words),
        env={**without_settings(), **(env or {})},
        cwd=cwd,
        timeout_s=timeout_s,
        shared=shared and function == MAIN and "--data" in words and words[0] in READING,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
