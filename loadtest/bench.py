"""Every scenario in one table, and as JSON with the machine's facts: `make bench`, or `python -m loadtest.bench w1 w2`.

A scenario whose totals are not what was sent is a failure, whatever its speed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadtest import compare
from loadtest.latency_world import WorldError, end_in_order, machine
from loadtest.scenario import Scenario, ScenarioError, SkippedError, run, scenarios, shown
from loadtest.verdict import WrongTotalsError


def bench(
    names: Sequence[str], known: dict[str, Scenario], console: Console, **changed: Any
) -> dict[str, Any]:
    """Run them in turn; returns what they come to. One that cannot be run or is wrong has a `fault`, and no figure."""
    done: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names, 1):
        scenario, began_s = known[name], time.monotonic()
        loads = [os.getloadavg()[0]]
        head = f"{name} ({number} of {len(names)})"
        with (
            console.status(f"{head}: {escape(scenario.about)}") as status,
            tempfile.TemporaryDirectory(prefix="trainfare-bench-") as directory,
        ):

            def say(line: str, head: str = head, status: Any = status) -> None:
                status.update(f"{head}: {escape(line)}")
                if not console.is_terminal:
                    console.print(f"{head}: {escape(line)}", highlight=False)

            changes = changed if scenario.kind == "catch_up" else {}
            try:
                done[name] = run(scenario, Path(directory) / "run", say, **changes)
            except SkippedError as reason:
                done[name] = {"skipped": str(reason)}
            except (WorldError, WrongTotalsError) as fault:
                done[name] = {"fault": str(fault)}
        loads.append(os.getloadavg()[0])
        done[name] |= {
            "load_average": [round(load, 2) for load in loads],
            "took_s": time.monotonic() - began_s,
        }
    return {"machine": machine(), "at_s": int(time.time()), "scenarios": done}


def table_of(results: dict[str, Any], known: dict[str, Scenario]) -> Table:
    """Everything for people."""
    facts = results["machine"]
    table = Table(
        title=f"{facts['cores']} cores of {facts['cpu']}, {facts['memory_mib']:,} MiB, Python {facts['python']}"
    )
    for name in ("scenario", "figures", "totals", "load", "s"):
        table.add_column(name, justify="right" if name in ("load", "s") else "left")
    for name, found in results["scenarios"].items():
        lines, totals = shown(known[name], found), "right" if "usd" in found else "-"
        if "skipped" in found:
            lines = [f"skipped: {found['skipped']}"]
        if "fault" in found:
            lines, totals = found["fault"].splitlines()[:6], "FAILED"
        load = " ".join(f"{each:.1f}" for each in found["load_average"])
        about = f"[bold]{escape(name)}[/]\n{escape(known[name].about)}"
        table.add_row(
            about, escape("\n".join(lines)), totals, load, f"{found['took_s']:.0f}", end_section=True
        )
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; 0 all right, 1 something failed or, with --compare, is slower than the reference."""
    try:
        known = scenarios()
    except ScenarioError as fault:
        sys.stderr.write(f"bench: {fault}\n")
        return 2
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="SCENARIO", help=f"of {', '.join(known)}; else the usual ones"
    )
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--rounds", type=int, help="of each catch-up, instead of what its file says")
    parser.add_argument("--program", help="runs the worker of a catch-up: a module and its arguments")
    parser.add_argument(
        "--compare", action="store_true", help="against the committed ratios (loadtest.compare)"
    )
    parser.add_argument(
        "--out", type=Path, default=compare.RESULTS / "last.json", help="the JSON file to write"
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(known)}")
    if options.list:
        sys.stdout.write("".join(f"{name:12}{each.about}\n" for name, each in known.items()))
        return 0
    changed: dict[str, Any] = {} if options.rounds is None else {"rounds": options.rounds}
    if options.program is not None:
        changed["program"] = tuple(shlex.split(options.program))
    console = Console()
    names = options.names or [name for name, each in known.items() if each.default]
    results = bench(names, known, console, **changed)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    console.print(table_of(results, known))
    console.print(f"written to {options.out}", highlight=False)
    failed = any("fault" in found for found in results["scenarios"].values())
    if failed:
        console.print("some figures are missing: see FAILED above", style="bold red")
    if options.compare and not failed:
        return compare.main([str(options.out)])
    return int(failed)


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
