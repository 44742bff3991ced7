"""Writes a log of made events and judges it with the shipped rules."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import orjson

from loadtest.labelled.ordinary import Event
from streams.backtest.run import BacktestRun, backtested
from streams.config.load import load_settings
from streams.log import configure_logging

Shape = TypeVar("Shape")
Part = TypeVar("Part")


@contextmanager
def judged(events: Iterable[Event], log: Path) -> Iterator[BacktestRun]:
    """What the rules say of these events, which are in the order in which they come; the log stays."""
    # In one shard: each of them judges every tick by itself.
    settings = load_settings({}, overrides={"kafka.partitions": 1})
    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    with gzip.open(log, "wb", compresslevel=1) as packed:
        packed.writelines(
            orjson.dumps({"topic": topic, "value": value}, option=orjson.OPT_APPEND_NEWLINE)
            for _, topic, value in events
        )
    with backtested([log], None, settings) as run:
        yield run


def in_parts(
    run_part: Callable[[Shape, Path], Part], shapes: Sequence[Shape], processes: int, out: Path | None = None
) -> list[Part]:
    """What becomes of each log, in processes of their own; logs stay only in a directory that is given."""
    with (
        tempfile.TemporaryDirectory(prefix="trainfare-labelled-") as temporary,
        ProcessPoolExecutor(processes, get_context("spawn")) as pool,
    ):
        directory = Path(temporary) if out is None else out
        directory.mkdir(parents=True, exist_ok=True)
        return [*pool.map(run_part, shapes, [directory] * len(shapes))]
