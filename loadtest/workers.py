"""One worker against several on the same full log: `python -m loadtest.workers --scenario w2-long --seconds 1000`.

Each number of workers has a group and a store of its own, which is a ClickHouse outside of them. The clock
runs from the first record that any of them folds to the instant when everything is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from loadtest.catch_up import Log, Plan, environment, filled, lines_of
from loadtest.fleet import SHAPES
from loadtest.latency_world import WorldError, end_in_order, machine
from loadtest.saying import say
from loadtest.soak_world import Member
from loadtest.verdict import WrongTotalsError, check
from tests.store_process import StoreProcess

_PATIENCE_S: Final = 600.0
_LOOK_S: Final = 0.2
_MILLION: Final = 1_000_000

Lines = Sequence[Mapping[str, Any]]


def stored_at_s(workers: Sequence[Lines], records: int) -> float | None:
    """When so many `gpu` records were stored by all of them together; None: not yet.

    A partition may have moved from one to the other: what counts is how far it is stored.
    """
    flights = sorted(
        (line["stored"] for lines in workers for line in lines if "stored" in line),
        key=lambda flight: float(flight["at_s"]),
    )
    ends: dict[str, int] = {}
    for flight in flights:
        for place, offset in flight["next"].items():
            if place.startswith("gpu/"):
                ends[place] = max(ends.get(place, 0), offset)
        if sum(ends.values()) >= records:
            return float(flight["at_s"])
    return None


def figures(workers: Sequence[Lines], messages: int, samples: int) -> dict[str, float]:
    """Seconds, rates, and CPU of all of them; ValueError if not everything was stored."""
    end_s = stored_at_s(workers, messages)
    firsts = [line["first"] for lines in workers for line in lines if "first" in line]
    if end_s is None or not firsts:
        raise ValueError("not everything was stored")
    cpu_s = 0.0
    for lines in workers:
        first = next((line["first"] for line in lines if "first" in line), None)
        flights = [line["stored"] for line in lines if "stored" in line and line["stored"]["at_s"] <= end_s]
        if first is not None and flights:
            cpu_s += flights[-1]["cpu_s"] - first["cpu_s"]
    wall_s = end_s - min(float(first["at_s"]) for first in firsts)
    return {
        "workers": len(workers),
        "wall_s": wall_s,
        "messages_per_s": messages / wall_s,
        "samples_per_s": samples / wall_s,
        "cpu_s_per_million_samples": cpu_s / samples * _MILLION,
    }


def _round(log: Log, count: int, directory: Path) -> dict[str, float]:
    directory.mkdir()
    with ExitStack() as stack:
        store = stack.enter_context(StoreProcess(directory / "store"))
        outs = [directory / f"inside-{number}.jsonl" for number in range(count)]
        env = environment(log.settings.kafka, directory.name) | {"TRAINFARE_CLICKHOUSE_URL": store.url}
        members = []
        for number, out in enumerate(outs):
            out.touch()
            member = Member(f"w{number}", env, directory, (), ("loadtest.inside", str(out)))
            stack.callback(member.kill)
            member.start()
            members.append(member)
        deadline_s = time.monotonic() + _PATIENCE_S
        while stored_at_s([lines_of(out) for out in outs], log.known.messages) is None:
            for member in members:
                if not member.alive or time.monotonic() > deadline_s:
                    raise WorldError(f"{member.name} did not store everything:\n{member.said()}")
            time.sleep(_LOOK_S)
        codes = [member.stop() for member in members]
        if any(codes):
            raise WorldError(f"workers ended with {codes}:\n{members[0].said()}")
        check(store.target(), log.known)
        return figures([lines_of(out) for out in outs], log.known.messages, log.known.gpu_samples)


def run(plan: Plan, counts: Sequence[int], directory: Path) -> list[dict[str, float]]:
    """Fill the log once, and meter it with each number of workers."""
    rounds = []
    with filled(plan, directory, say) as log:
        for place, count in enumerate(counts):
            say(f"{count} worker(s) meter {log.known.messages:,} messages")
            rounds.append(_round(log, count, directory / f"workers-{place}"))
    return rounds


def report(rounds: Sequence[Mapping[str, float]]) -> str:
    """For people; the first number of workers is what the others are compared with."""
    base = rounds[0]["samples_per_s"]
    return "".join(
        f"{each['workers']:.0f} worker(s): {each['wall_s']:.2f} s, {each['samples_per_s']:,.0f} samples/s "
        f"({each['samples_per_s'] / base:.2f}x), {each['cpu_s_per_million_samples']:.3f} CPU s per million samples\n"
        for each in rounds
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured and right, 1 it could not be, or the totals are wrong."""
    parser = argparse.ArgumentParser(prog="workers", description=__doc__)
    parser.add_argument("--scenario", choices=SHAPES, default="w2-long")
    parser.add_argument("--seconds", type=int, default=1_000, help="event time")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers, one after the other"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trainfare-bench-") as directory:
        try:
            rounds = run(Plan(options.scenario, options.seconds), options.workers, Path(directory))
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"workers: {fault}\n")
            return 1
    sys.stdout.write(report(rounds))
    if options.out is not None:
        found = {"rounds": rounds, "machine": machine(), "load_average": os.getloadavg()[0]}
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
