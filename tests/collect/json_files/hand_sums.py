"""A round of devices, and what it costs by hand: in fractions, from the log's own figures and docs/edge.md's arithmetic.

It must import nothing of the product.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
FROM_MS = 1_780_308_000_000
#: Model -> terms, USD per device-hour.
DEVICES = {"Jetson Orin Nano": ("owned", Fraction("0.035530822")), "Pixel 8": ("rented", Fraction("0.05"))}
USD_PER_WH = Fraction("0.00031")
USD_PER_GB = {"down": Fraction("0.01"), "up": Fraction("0.09")}


def iso(at_ms: int) -> str:
    """Return an instant as devices write it."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{at_ms % 1000:03d}Z")


def lines(job: str, devices: int, seed: int, *, begin_ms: int = FROM_MS, hours: int = 6) -> list[str]:
    """Return the log of a round: stays of 1 to 59 s that begin within some hours, in no order."""
    dice = random.Random(seed)
    found: list[dict[str, Any]] = []
    for slot in range(1, devices + 1):
        model = dice.choice(sorted(DEVICES))
        from_ms = begin_ms + dice.randrange(hours * HOUR_MS)
        stay_ms = dice.randrange(1_000, 59_000)
        common = {
            "round": job,
            "slot": slot,
            "device": f"d-{slot % 977}",
            "site": "eu-west",
            "to": iso(from_ms + stay_ms),
        }
        uptime = {
            "kind": "uptime",
            **common,
            "fleet": "kitchen",
            "model": model,
            "terms": DEVICES[model][0],
            "from": iso(from_ms),
            "uptime_s": stay_ms / 1000,
            "joules": dice.randrange(1, 600_000) / 1000,
            "ended": dice.choice(("synced", "synced", "dropped")),
        }
        took_ms = dice.randrange(0, stay_ms)
        sync = {
            "kind": "sync",
            **common,
            "took_s": took_ms / 1000,
            "down_bytes": dice.randrange(10**8),
            "up_bytes": dice.choice((0, dice.randrange(1, 10**8))),
        }
        found += (uptime, sync)
    dice.shuffle(found)
    return [json.dumps(each) for each in found]


def cost_nano(log: list[str]) -> Counter[str]:
    """Return what a log costs, in nano-dollars by part; each minute of a stay is rounded by itself, half to even."""
    total: Counter[str] = Counter()
    for record in map(json.loads, log):
        until_ms = round(datetime.fromisoformat(record["to"]).timestamp() * 1000)
        if record["kind"] == "uptime":
            from_ms = round(datetime.fromisoformat(record["from"]).timestamp() * 1000)
            watts = round(Fraction(str(record["joules"])) / Fraction(str(record["uptime_s"])), 3)
            for piece_ms in pieces(from_ms, until_ms).values():
                hours = Fraction(piece_ms, HOUR_MS)
                total["gpu"] += nano(hours * DEVICES[record["model"]][1])
                total["compute"] += nano(hours * watts * USD_PER_WH)
        else:
            took_ms = round(Fraction(str(record["took_s"])) * 1000)
            for way, usd in USD_PER_GB.items():
                for moved in spread(record[f"{way}_bytes"], until_ms - took_ms, took_ms):
                    total["network"] += nano(Fraction(moved, 10**9) * usd)
    return total


def nano(usd: Fraction) -> int:
    return round(usd * 10**9)


def pieces(from_ms: int, until_ms: int) -> dict[int, int]:
    """Return how many ms fall into each minute."""
    found = {}
    for minute in range(from_ms // MINUTE_MS, (until_ms - 1) // MINUTE_MS + 1):
        begin, end = max(from_ms, minute * MINUTE_MS), min(until_ms, (minute + 1) * MINUTE_MS)
        found[minute] = end - begin
    return found


def spread(amount: int, from_ms: int, took_ms: int) -> list[int]:
    """Return the bytes of each minute: what falls before an instant is rounded down."""
    if not took_ms:
        return [amount]
    found, before = [], 0
    for minute in pieces(from_ms, from_ms + took_ms):
        end = min((minute + 1) * MINUTE_MS, from_ms + took_ms)
        upto = amount * (end - from_ms) // took_ms
        found.append(upto - before)
        before = upto
    return found
