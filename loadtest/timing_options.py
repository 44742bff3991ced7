"""The command line of programs that time questions to a store that is kept: rounds, which, where it is kept, and figures as JSON."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def timing_parser(prog: str, doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that they all have."""
    parser = argparse.ArgumentParser(prog=prog, description=doc)
    parser.add_argument("--rounds", type=int, default=rounds, help="of each question")
    parser.add_argument("--only", default="", metavar="TEXT", help="questions whose name contains this")
    kept = Path(tempfile.gettempdir()) / f"trainfare-{prog}"
    parser.add_argument("--store", type=Path, default=kept, help="where the store is kept")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    return parser
