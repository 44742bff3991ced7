"""Files of past events: whole logs, shuffled and divided."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.replay.logs import write_log

Line = dict[str, Any]


def log_lines(folder: Path, *, jobs: int = 12, minutes: int = 8, **options: Any) -> list[Line]:
    """Jobs with samples, traffic and nodes, in the order of time; all of them end."""
    path = write_log(folder / "log.jsonl", jobs, minutes, **{"one_ends_of": 1, **options})
    return in_time([json.loads(line) for line in path.read_text().splitlines()])


def in_time(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line["value"]["time_ms"])


def write(path: Path, lines: Iterable[Line | str]) -> Path:
    """One line each; a text is written as it is."""
    text = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{line}\n" for line in text))
    return path


def shuffled(folder: Path, lines: Sequence[Line], files: int = 2, seed: int = 7) -> list[Path]:
    """The lines in any order, divided among files."""
    mixed = list(lines)
    random.Random(seed).shuffle(mixed)
    return [write(folder / f"part-{n}.jsonl", mixed[n::files]) for n in range(files)]


def of_jobs(lines: Iterable[Line], wanted: Iterable[str]) -> list[Line]:
    """The lines of some jobs, without nodes and prices."""
    names = set(wanted)
    return [line for line in lines if line["value"].get("job_id") in names]


def event(topic: str, number: int, time_ms: int, **value: Any) -> Line:
    return {"topic": topic, "value": {"source": "t", "id": f"e{number}", "time_ms": time_ms, **value}}
