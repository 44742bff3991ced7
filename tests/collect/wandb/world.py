"""W&B's folder as it was recorded: the files that were there then (see `record.py`)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.wandb.collector import open_collector
from streams.collect.wandb.options import Options
from tests.collect.recordings import looks_in

_HERE: Final = Path(__file__).parent
VERSION: Final = "0.31.0"


@cache
def recorded() -> Sequence[dict[str, Any]]:
    """Return the looks at the folder."""
    return looks_in(_HERE / f"{VERSION}.jsonl.xz")


class WandbWorld:
    """The looks at the folder, in their order."""

    def __init__(self, directory: Path) -> None:
        self.states = len(recorded())
        self._away = directory / "away"
        self.folder = directory / "wandb"
        self.folder.mkdir()

    def collector(self, **options: Any) -> Collector:
        return open_collector(Options(folders=[self.folder], interval_s=1, **options))

    def turn(self, state: int) -> int:
        look = recorded()[state]
        base = self.folder if self.folder.exists() else self._away
        files = {
            base / Path(name).relative_to("wandb"): base64.b64decode(text)
            for name, text in look["files"].items()
        }
        for path in base.glob("*/*.wandb"):
            if path not in files:
                path.unlink()
        for path, content in files.items():
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        return int(look["time_ms"]) // 1000 * 1000

    def entries(self, state: int) -> int:
        return sum(name.endswith(".wandb") for name in recorded()[state]["files"])

    def go_away(self) -> None:
        self.folder.rename(self._away)

    def come_back(self) -> None:
        self._away.rename(self.folder)

    def close(self) -> None:
        pass
