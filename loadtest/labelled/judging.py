"""Writes a log of made events and judges it with the shipped rules."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from loadtest.labelled.ordinary import Event
from streams.backtest.run import BacktestRun, backtested
from streams.config.load import load_settings
from streams.log import configure_logging


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
