"""Writes the stories of docs/stories.md, each as a small log: `python -m loadtest.stories`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest.saying import say
from streams.demo.story_logs import STORIES

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "examples" / "stories"


def main(argv: Sequence[str] | None = None) -> int:
    """Write all of them."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.stories", description=__doc__)
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="the directory to write to")
    directory = parser.parse_args(argv).out
    directory.mkdir(parents=True, exist_ok=True)
    for name, story in STORIES.items():
        content = story().content()
        (directory / f"{name}.jsonl").write_bytes(content)
        say(f"{name}.jsonl: {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
