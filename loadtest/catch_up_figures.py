"""From what a worker said of itself to figures: rates, CPU, memory, and how it compares with who only counts the log."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from loadtest.known import Known

_MILLION = 1_000_000


def stored_of(line: Mapping[str, Any], wanted: Mapping[str, int]) -> bool:
    """Whether everything was stored by then."""
    records = line.get("stored", {}).get("records")
    return records is not None and all(records.get(topic, 0) >= count for topic, count in wanted.items())


def line_of(lines: Sequence[dict[str, Any]], wanted: Mapping[str, int]) -> dict[str, Any] | None:
    """The first flight with everything, else the last one so far."""
    flights = [line for line in lines if "stored" in line]
    done = [line for line in flights if stored_of(line, wanted)]
    return done[0] if done else flights[-1] if flights else None


def round_of(lines: Sequence[dict[str, Any]], known: Known, wanted: Mapping[str, int]) -> dict[str, Any]:
    """Rates and costs of one round."""
    first = next(line["first"] for line in lines if "first" in line)
    end = (line_of(lines, wanted) or {})["stored"]
    parts = next(line for line in lines if "parts" in line)
    wall_s, cpu_s = end["at_s"] - first["at_s"], end["cpu_s"] - first["cpu_s"]
    folded = end["folded"]
    # As if nobody else had wanted the cores: sleeps and waits for answers count, waits for a core do not.
    busy_s = (folded["at_s"] - folded["delay_s"]) - (first["at_s"] - first["delay_s"])
    # Pages touched for the first time: on a machine where that is slow, memory that is not reused costs more than work.
    faults = end["minor_faults"] - first["minor_faults"]
    rows = sum(parts["rows"].values())
    insert_s = parts["parts"]["insert"]["wall_s"]
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "start_cpu_s": first["cpu_s"],
        "messages_per_s": known.messages / wall_s,
        "samples_per_s": known.gpu_samples / wall_s,
        "pace_per_s": known.messages / busy_s,
        "cpu_us_per_message": cpu_s / known.messages * _MILLION,
        "cpu_s_per_million_samples": cpu_s / known.gpu_samples * _MILLION,
        "minor_faults_per_million_messages": faults / known.messages * _MILLION,
        "rss_peak_mib": parts["rss_peak_mib"],
        "rows_per_s_inserted": rows / insert_s if insert_s else 0.0,
        "load": end["load"],
        "rows": parts["rows"],
        "parts": parts["parts"],
    }


def summary(rounds: Sequence[dict[str, Any]], limits: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians, and the ratios that say the same on another machine; larger is better in each."""
    median, limit = medians(rounds), medians(limits)
    ratios: dict[str, float] = {}
    if limit:
        ours_us = median["cpu_us_per_message"]
        ratios = {
            "cpu_vs_count": limit["cpu_us_per_message"] / ours_us,
            "cpu_vs_decode": limit["decode_us_per_message"] / ours_us,
            "pace_vs_count": median["pace_per_s"] / limit["pace_per_s"],
            "pace_vs_decode": median["pace_per_s"] * limit["decode_us_per_message"] / _MILLION,
        }
    return {"median": median, "limit": limit, "ratios": ratios, "rounds": rounds, "limits": limits}


def medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each figure by itself."""
    names = [name for name, value in rounds[0].items() if isinstance(value, (int, float))] if rounds else []
    return {name: statistics.median(each[name] for each in rounds) for name in names}
