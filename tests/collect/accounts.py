"""Polls a collector once, and counts what became of the entries that it read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streams.accounts.account import Account
from streams.collect.collector import Collector, Position
from streams.collect.registry import open_collector
from streams.config.settings import KafkaSettings

NOW_MS: Final = 4_000_000_000_000
CREATED_MS: Final = 1_780_308_000_000


Counts = dict[str, int]


def accounted(collector: Collector, now_ms: int = NOW_MS, position: Position | None = None) -> Account:
    total = Account()
    for batch in collector.poll(position, now_ms):
        total.add(batch.account)
    return total


def counted(account: Account) -> Counts:
    """Return the entries by reason; those that are metered under that word."""
    return {reason or "metered": count for (_, reason), count in account.counts.items() if count}


def of_files(name: str, text: str, folder: Path, options: str = "") -> Account:
    (folder / "log").write_text(text)
    config = folder / "collect.toml"
    config.write_text(f"[{name}]\nfiles = []\n{options}")
    files = [str(folder / "log")]
    return accounted(open_collector(name, config, KafkaSettings, files=files, is_one_poll=True))
