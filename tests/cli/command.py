"""Run the command as a user does: another process, its exit code and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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


def trainfare(
    *words: object,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    function: str = "streams.cli.main:main",
    new_store: Literal["copied", "begun"] = "copied",
) -> Done:
    """Run `trainfare` with no settings but those given.

    A replay into a directory without a store finds an empty one there, unless it shall begin it by itself.
    """
    if words[:1] == ("replay",) and "--data" in words and new_store == "copied":
        begun((cwd or Path()) / str(words[words.index("--data") + 1]))
    done = FORKER.run(
        function,
        *(str(word) for word in words),
        env={**without_settings(), **(env or {})},
        cwd=cwd,
        timeout_s=240,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
