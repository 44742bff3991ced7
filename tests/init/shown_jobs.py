"""Shows the first jobs of a store as `trainfare init` does at its end: `DIR`, beside a Slurm of PATH. For a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from streams.cli.faults import guarded
from streams.cli.init_jobs import show_first_jobs
from streams.init.price_file import prices_in
from streams.init.surroundings import Surroundings


def main(words: Sequence[str]) -> None:
    """Wait for nothing."""
    directory = Path(words[0])
    prices = prices_in("prices.csv", (directory / "prices.csv").read_text(), 1_790_000_000_000)
    found = Surroundings("slurm", "", (), {}, {"slurm": {}})
    sys.exit(guarded(lambda: show_first_jobs(found, directory, prices, 0, lambda _: None)))
