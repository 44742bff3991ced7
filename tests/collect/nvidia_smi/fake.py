"""Stands for nvidia-smi: `fake.py FILE ARGUMENTS` prints what the file holds for a query, as the real one does."""

from __future__ import annotations

import json
import sys


def main(path: str, arguments: list[str]) -> int:
    """Print the answer to one query."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes as long to load as all the rest
        look = json.load(file)
    if look["is_away"]:
        sys.stdout.write(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest"
            " NVIDIA driver is installed and running.\n\n"
        )
        return 9
    if "--format=csv,noheader,nounits" not in arguments and arguments != ["-q", "-d", "UTILIZATION"]:
        return 2
    sys.stdout.write(look[arguments[0]])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
