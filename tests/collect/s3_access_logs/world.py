"""Access logs in files that come one after the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from streams.collect.allocations import Allocation
from streams.collect.collector import Collector
from streams.collect.s3_access_logs.collector import open_collector
from streams.collect.s3_access_logs.options import Options
from tests.collect.files_world import FilesWorld

ACCESS_LOG: Final = Path(__file__).parent / "access.log"
FROM_MS: Final = 1_780_308_300_000


def options(directory: Path, files: list[str], **others: Any) -> Options:
    """Return options for the sample."""
    held = directory / "allocations.json"
    held.write_bytes(msgspec.json.encode({"allocations": [Allocation("gpu-01", "run-9", attempt=2)]}))
    rules = [
        {"requester": "arn:aws:sts::*:assumed-role/train/{job_id}"},
        {"bucket": "checkpoints", "key": "runs/{job_id}/*"},
    ]
    table = {
        "files": files,
        "rules": rules,
        "allocations_file": held,
        "node_aliases": {"10.0.1.5": "gpu-01"},
        "buckets": {"training-data": {"storage_class": "standard", "region": "us-west-1"}},
    }
    return Options.model_validate({**table, **others})


def _open(directory: Path, files: list[str]) -> Collector:
    return open_collector(options(directory, files))


def s3_world(directory: Path) -> FilesWorld:
    """Two lines a file."""
    lines = ACCESS_LOG.read_bytes().splitlines(keepends=True)
    files = [(f"2026-06-01-{at}", b"".join(lines[at : at + 2])) for at in range(0, len(lines), 2)]
    return FilesWorld(directory, files, partial(_open, directory), FROM_MS)
