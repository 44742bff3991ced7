"""The sample of devices' logs in files that come one after the other."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from streams.collect.collector import Collector
from streams.collect.json_files.collector import open_collector
from streams.collect.json_files.options import Options
from tests.collect.files_world import FilesWorld
from tests.collect.kafka.world import MAPS

_FROM_MS: Final = 1_780_308_300_000


def _open(files: list[str]) -> Collector:
    table = tomllib.loads((MAPS / "edge.toml").read_text())["json-files"]
    return open_collector(Options.model_validate({**table, "files": files}))


def edge_world(directory: Path) -> FilesWorld:
    """One line a file, and a file that cannot be read."""
    lines = (MAPS / "edge.sample.jsonl").read_bytes().splitlines(keepends=True)
    files = [(f"{at}.jsonl", line + b'{"kind": "uptime"}\n') for at, line in enumerate(lines)]
    return FilesWorld(directory, files, _open, _FROM_MS)
