"""Writes what Slurm's accounting has of the past to a file of events, for a backfill.

A file that is there is what was read before: the same command resumes with the same events.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, cast

import msgspec
import zstandard

from schemas.durations import DAY_MS
from schemas.escaping import visible
from streams.accounts.account import Account
from streams.cli.files import write_new
from streams.cli.progress import progress
from streams.errors import WrongUseError


def slurm_events(config: Path, since_ms: int, until_ms: int, out: Path | None) -> Path:
    """The file of the events of what ended in [since, until), written unless it is there.

    Raises:
        WrongUseError: The times are no interval, or the configuration has faults.
        SourceUnavailableError: sacct cannot be read.
        TrainfareError: The file cannot be written.
    """
    if since_ms >= until_ms:
        raise WrongUseError(
            f"--since: {_day(since_ms)} is not before {_day(until_ms)}, up to where jobs are taken (--until)"
        )
    from streams.collect.registry import options_of
    from streams.collect.slurm.command import asking
    from streams.collect.slurm.history import WINDOW_S, history
    from streams.collect.slurm.options import Options

    options = cast("Options", options_of("slurm", config))
    path = out or Path(f"slurm-{_day(since_ms)}-{_day(until_ms)}.jsonl.zst")
    if path.exists():
        sys.stderr.write(
            f"trainfare: {visible(str(path))} is there, sacct is not asked again; remove it to read anew, as after a change of {visible(str(config))}\n"
        )
        return path
    if path.suffix != ".zst":
        raise WrongUseError(f"--events {path}: its name must end in .zst: it is written compressed")
    since_s, until_s = since_ms // 1000, until_ms // 1000
    account = Account()
    with progress("asking sacct, day by day", -(-(until_s - since_s) // WINDOW_S), in_lines=True) as advance:

        def fill(file: IO[bytes]) -> None:
            encoder = msgspec.json.Encoder()
            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
                for part in history(options, asking(options), since_s, until_s):
                    for event in part.events:
                        packed.write(
                            encoder.encode({"topic": str(event.topic), "value": event.value}) + b"\n"
                        )
                    account.add(part.account)
                    advance(1)

        write_new(path, fill, "--events")
    sys.stderr.write(f"{account.shown('slurm', str(config))}\n")
    return path


def until_default_ms(now_ms: int, horizon_ms: int) -> int:
    """The last midnight (UTC) that is at least a horizon ago, so that a day's commands ask for the same."""
    return (now_ms - horizon_ms) // DAY_MS * DAY_MS


def _day(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%d}" if at_ms % DAY_MS == 0 else f"{at:%Y-%m-%dT%H%M%S}"
