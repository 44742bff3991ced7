"""`trainfare collect wandb`: reads the files of runs that W&B keeps on disk, offline or not yet synced.

It speaks to nobody. Each folder of a run is an attempt: a run that is resumed has another folder, and the same id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from schemas.escaping import visible
from streams.accounts.account import Account
from streams.collect.collector import (
    CollectedEvent,
    EventBatch,
    PolledByOptions,
    Position,
    SourceUnavailableError,
    full_batches,
)
from streams.collect.mlflow.events import (
    ATTEMPT,
    JOB_ID,
    PollTimes,
    RunNews,
    account_for,
    attempt_tag,
    new_run_events,
)
from streams.collect.mlflow.progress import KnownRun, RunProgress
from streams.collect.mlflow.records import TrackedRun
from streams.collect.wandb.log_file import RunFileError, records_of
from streams.collect.wandb.options import Options
from streams.collect.wandb.records import run_of

#: run-20260601_120000-ID, or offline-run-...
_RUN_FOLDER: Final = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)")
_FILES_AT_MOST: Final = 10_000


class _ReadFile(NamedTuple):
    """A file as it was read: unless it changes, it is not read again."""

    size_bytes: int
    modified_ns: int
    run: TrackedRun | None
    fault: str


class WandbCollector(PolledByOptions):
    """The runs in some folders."""

    name = "wandb"

    def __init__(self, options: Options) -> None:
        self._options: Options = options
        self._files: dict[Path, _ReadFile] = {}

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what is new, the oldest first.

        Raises:
            SourceUnavailableError: One of the folders cannot be read.
        """
        progress = RunProgress.of(position, self._options.begin_ms(now_ms))
        before = progress.position()
        at_ms = now_ms // self.interval_ms * self.interval_ms
        if at_ms < max(progress.since_ms, progress.read_ms):
            return
        account = Account()
        times = PollTimes(progress.read_ms or progress.since_ms, at_ms, progress.since_ms)
        events: list[CollectedEvent] = []
        newest = _newest_attempts(progress)
        runs = self._runs(account)
        last_ms = {run.run_id: run.start_ms for run in runs}
        for run in runs:
            if JOB_ID not in run.tags and not self._options.standalone_runs:
                account.free("standalone_runs")
                continue
            key = f"{run.run_id}@{run.start_ms}"
            known = progress.runs.get(key)
            if known is None and JOB_ID not in run.tags:
                run = run._replace(tags={ATTEMPT: str(newest.get(run.run_id, 0) + 1), **run.tags})
            try:
                is_open = known is not None and not known.ended_ms  # seen before its end was written
                if not run.is_live and run.end_ms <= progress.since_ms and not is_open:
                    news = RunNews([], known or KnownRun(attempt_tag(run) or 1, run.end_ms))
                    account.free("before_since")
                else:
                    news = new_run_events(run, run.experiment_id, known, times, self._options)
                    is_last = run.start_ms == last_ms[run.run_id]
                    account_for(run, self._options, account, at_ms if is_last else 0)
            except ValueError as fault:
                account.not_understood("malformed", f"runs: {fault}")
                continue
            progress.runs[key] = news.run
            newest[run.run_id] = max(news.run.attempt, newest.get(run.run_id, 0))
            events += news.events
        events.sort(key=lambda event: event.value["time_ms"])
        rest = yield from full_batches(events, before)
        progress.read_ms = at_ms
        progress.forget()
        yield EventBatch(rest, progress.position(), account)

    def _runs(self, account: Account) -> list[TrackedRun]:
        """The runs of all files, the oldest first; what cannot be read is said in `account`."""
        files: dict[Path, _ReadFile] = {}
        for path in self._paths():
            try:
                files[path] = self._read(path)
            except OSError as fault:
                account.not_understood("unreadable", f"{str(path)[:200]}: {fault.strerror}")
        self._files = files
        for path, each in files.items():
            if each.fault:
                account.not_understood("malformed", f"{str(path)[:200]}: {each.fault}")
            elif each.run is None:
                account.free("empty")
        runs = [each.run for each in files.values() if each.run is not None]
        return sorted(runs, key=lambda run: (run.start_ms, run.run_id))

    def _paths(self) -> list[Path]:
        found: list[Path] = []
        for folder in self._options.folders:
            try:
                entries = sorted(folder.iterdir())
            except OSError as fault:
                raise SourceUnavailableError(
                    f"{visible(str(folder))}: {fault.strerror}; name the folders of W&B in [wandb]"
                ) from None
            for entry in entries:
                named = _RUN_FOLDER.fullmatch(entry.name)
                if named and (path := entry / f"run-{named[1]}.wandb").is_file():
                    found.append(path)
        if len(found) > _FILES_AT_MOST:
            raise SourceUnavailableError(
                f"{len(found)} runs are more than {_FILES_AT_MOST}; name fewer folders"
            )
        return found

    def _read(self, path: Path) -> _ReadFile:
        """Read a file, unless it is as it was.

        Raises:
            OSError: It cannot be read.
        """
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            before = self._files.get(path)
            if before is not None and (before.size_bytes, before.modified_ns) == (
                stat.st_size,
                stat.st_mtime_ns,
            ):
                return before
            most = self._options.max_file_mib * 2**20
            content = file.read(most + 1)
        run, fault = None, ""
        try:
            if len(content) > most:
                raise RunFileError(f"more than {most} bytes; see max_file_mib")
            run = run_of(records_of(content)) if content else None
        except RunFileError as problem:
            fault = str(problem)
        return _ReadFile(stat.st_size, stat.st_mtime_ns, run, fault)


def _newest_attempts(progress: RunProgress) -> dict[str, int]:
    """The newest attempt of each run; its folders are known by run and start."""
    found: dict[str, int] = {}
    for key, known in progress.runs.items():
        run_id = key.rpartition("@")[0]
        found[run_id] = max(known.attempt, found.get(run_id, 0))
    return found


def open_collector(options: Options) -> WandbCollector:
    """The collector."""
    return WandbCollector(options)
