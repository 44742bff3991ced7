"""Whether the meter has become slower: ratios of a run against the committed ones, `python -m loadtest.compare RESULTS.json`.

A ratio is to something measured beside it in the same run, so it says the same on another machine, more or
less.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

RESULTS: Final = Path(__file__).resolve().parent / "results"
REFERENCE: Final = RESULTS / "reference.json"
#: The fall that is one.
TOLERANCE: Final = 0.15

#: What is judged: the worst that all its ratios agree on. A slower meter lowers both; one that falls alone has a
#: yardstick that was faster than usual, or is faster on this kind of machine.
JUDGED: Final[dict[str, tuple[str, ...]]] = {
    "CPU a message": ("cpu_vs_count", "cpu_vs_decode"),
    "pace": ("pace_vs_count", "pace_vs_decode"),
}


class Judged(NamedTuple):
    """One thing of one scenario."""

    scenario: str
    what: str
    reference: tuple[float, ...]
    found: tuple[float, ...]
    fall: float  # a share of the reference; negative: it is faster

    @property
    def fell(self) -> bool:
        """Whether it is too slow."""
        return self.fall > TOLERANCE


class NothingToCompareError(Exception):
    """The results and the reference have no scenario in common."""


def judge(results: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Judged]:
    """Compare every scenario that both have; raises NothingToCompareError if there is none."""
    found = [
        _judged(name, what, ratios, known["ratios"], results["scenarios"][name]["ratios"])
        for name, known in reference["scenarios"].items()
        if results["scenarios"].get(name, {}).get("ratios")
        for what, ratios in JUDGED.items()
    ]
    if not found:
        raise NothingToCompareError(
            f"the reference has {', '.join(reference['scenarios']) or 'no scenario'}, the results have "
            f"{', '.join(results['scenarios']) or 'none'}: no scenario with ratios in common"
        )
    return found


def _judged(
    scenario: str, what: str, names: Sequence[str], then: Mapping[str, float], now: Mapping[str, float]
) -> Judged:
    known = [name for name in names if name in then]  # a reference of before may lack one
    reference, found = tuple(then[name] for name in known), tuple(now[name] for name in known)
    fall = min(1 - new / old for old, new in zip(reference, found, strict=True))
    return Judged(scenario, what, reference, found, fall)


def lines(judged: Sequence[Judged]) -> list[str]:
    """A table, and a sentence for each fall."""
    table = [f"{'scenario':14}{'what':16}{'reference':>16}{'now':>16}{'change':>10}"]
    table += [
        f"{each.scenario:14}{each.what:16}{_shown(each.reference):>16}{_shown(each.found):>16}{-each.fall:>+10.1%}"
        for each in judged
    ]
    return table + [
        f"SLOWER: {each.scenario}, {each.what}: {each.fall:.0%} below the committed ratio to librdkafka counting the "
        f"same log ({_shown(each.found)} instead of {_shown(each.reference)}); {TOLERANCE:.0%} is allowed. Run it again "
        "on a quiet machine; if it stays, find what became slower, or accept it: "
        "python -m loadtest.compare RESULTS.json --accept"
        for each in judged
        if each.fell
    ]


def _shown(ratios: Sequence[float]) -> str:
    return " / ".join(f"{ratio:.3f}" for ratio in ratios)


def accepted(results: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    """The reference with the results' ratios in place of its own."""
    kept = dict(reference.get("scenarios", {}))
    for name, scenario in results["scenarios"].items():
        if scenario.get("ratios"):
            figures = ("samples_per_s", "cpu_s_per_million_samples", "rss_peak_mib")
            kept[name] = {
                "ratios": {ratio: round(value, 4) for ratio, value in scenario["ratios"].items()},
                "measured": {figure: round(scenario["median"][figure], 3) for figure in figures},
            }
    return {"machine": results["machine"], "scenarios": kept}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; 0 as fast, 1 slower or nothing to compare."""
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    parser.add_argument("results", type=Path, help="what a run wrote")
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    parser.add_argument("--accept", action="store_true", help="make these results the reference")
    options = parser.parse_args(argv)
    results = json.loads(options.results.read_text(encoding="utf-8"))
    there = options.reference.exists()
    reference = json.loads(options.reference.read_text(encoding="utf-8")) if there else {"scenarios": {}}
    if options.accept:
        text = json.dumps(accepted(results, reference), indent=2) + "\n"
        options.reference.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{options.reference} has the ratios of {options.results} now\n")
        return 0
    try:
        judged = judge(results, reference)
    except NothingToCompareError as fault:
        sys.stderr.write(f"compare: {fault}\n")
        return 1
    sys.stdout.write("\n".join(lines(judged)) + "\n")
    return int(any(each.fell for each in judged))


if __name__ == "__main__":
    sys.exit(main())
