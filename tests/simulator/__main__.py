"""`python -m tests.simulator --seeds A:B`: run seeds, say how it goes, and what failed."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time

from tests.simulator.faults import LATE
from tests.simulator.rules_fired import counted
from tests.simulator.run import run_seed


def say(*lines: str) -> None:
    """Print at once."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Return 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator")
    parser.add_argument("--seeds", default="0:200", help="A:B, from A up to, not including, B; or one seed")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--digests", action="store_true", help="print only what each run comes to")
    parser.add_argument("--late", action="store_true", help="only workers that die while they send")
    parser.add_argument("--rules", action="store_true", help="say in how many of the seeds each rule fires")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    logging.disable(logging.CRITICAL)
    if options.rules:
        say(*(f"{count:5} {rule}" for rule, count in counted(seeds).most_common()))
        return 0
    begun_s, failed = time.monotonic(), []
    for count, seed in enumerate(seeds, 1):
        result = run_seed(seed, LATE if options.late else None)
        if options.digests:
            say(result.digest)
            continue
        if result.differences:
            failed.append(seed)
            shown = [*result.differences[:8], "faults:", *result.faults[-25:]]
            say(f"seed {seed} fails:", *(f"  {line}" for line in shown))
            if options.stop:
                break
        if count % 20 == 0:
            gc.collect()  # a run collects nothing, and too little is made between two of them for it to happen by itself
        if count % 200 == 0:
            each_ms = (time.monotonic() - begun_s) / count * 1000
            say(f"{count} seeds, {len(failed)} failed, {each_ms:.0f} ms each")
    if not options.digests:
        say(f"{count} seeds in {time.monotonic() - begun_s:.1f} s, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
