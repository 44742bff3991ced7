"""A worker that meters and is attacked at once, and whether it holds: `python -m loadtest.abuse --seconds 120`.

A real Kafka broker, one `trainfare worker` with ClickHouse inside and few open files, nodes that send on a schedule.  It
is quiet first; then idle, slow, deaf and guessing clients come, and some with the right token and queries that ask for too
much.  In the midst of it the worker is told to stop.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from loadtest import abuse_doors
from loadtest.abuse_judge import verdicts
from loadtest.abuse_report import console_for_output, show
from loadtest.abuse_run import Attack
from loadtest.latency_world import WorldError, broker, end_in_order, settings_for


def plain(value: Any) -> Any:
    """Figures as JSON can hold them: named tuples as objects, at any depth."""
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if value == float("inf") else value


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="abuse", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it is attacked")
    parser.add_argument("--quiet", type=float, default=20.0, help="how long it is measured before, in s")
    parser.add_argument("--settle", type=float, default=15.0, help="how long to wait before that, in s")
    parser.add_argument("--rate", type=int, default=10_000, help="nodes of 8 GPUs, a message a second each")
    parser.add_argument("--jobs", type=int, default=1_000, help="so many jobs run on them")
    parser.add_argument("--ulimit", type=int, default=1_024, help="open files that the worker may have")
    parser.add_argument("--idle", type=int, default=2_000, help="connections that say nothing")
    parser.add_argument("--slow", type=int, default=200, help="clients that send a byte at a time")
    parser.add_argument("--deaf", type=int, default=64, help="listeners that never read")
    parser.add_argument("--bombers", type=int, default=8, help="clients whose queries ask for too much")
    parser.add_argument("--guessers", type=int, default=1, help="clients that try tokens")
    parser.add_argument(
        "--addresses", type=int, default=16,
        help="attackers come from so many addresses; 0: from the one that honest clients have",
    )  # fmt: skip
    parser.add_argument(
        "--doors",
        action="store_true",
        help="attack webhooks, events and log of `trainfare serve` instead (loadtest.abuse_doors)",
    )
    parser.add_argument("--log", type=Path, help="keep what the worker said")
    parser.add_argument("--json", "--out", dest="out", type=Path, help="write the figures as JSON, too")
    return parser.parse_args(argv)


def _keep(said: Path, kept: Path) -> None:
    if said.exists():
        kept.write_bytes(said.read_bytes())


def main(argv: Sequence[str] | None = None) -> int:
    """Attack and print; 0 every limit holds, 1 one does not, or it could not be measured."""
    options = parsed(argv)
    if not sys.platform.startswith("linux"):
        sys.stderr.write("abuse: needs Linux, whose /proc and loopback addresses it uses\n")
        return 1
    if options.doors:
        return abuse_doors.main([] if options.out is None else ["--json", str(options.out)])
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-abuse-")))
        if options.log is not None:
            stack.callback(_keep, directory / "worker.log", options.log)
        try:
            kafka = stack.enter_context(broker(directory / "kafka"))
            settings = settings_for(kafka.bootstrap_servers, directory / "data")
            figures = Attack(options, settings.kafka, directory).go()
        except WorldError as fault:
            sys.stderr.write(f"abuse: {fault}\n")
            return 1
    judged = verdicts(figures)
    show(figures, console_for_output())
    for difference in figures["wrong"][:10]:
        sys.stderr.write(f"abuse: {difference}\n")
    failed = [each for each in judged if not each.ok]
    for each in failed:
        sys.stderr.write(f"abuse: {each.name}: asked {each.limit}, found {each.found}\n")
    if options.out is not None:
        body = plain({**figures, "verdicts": judged})
        options.out.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return int(bool(failed))


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
