"""GPU messages in every form that senders could write, and in bulk what accidents make of them."""

from __future__ import annotations

import random

import numpy as np

from schemas.wire_types import MIN_TIME_MS
from tests.engine.coverage.shape_twin import NEWEST_MS, Packed
from tests.schemas.records import NOW_MS

_SPACES = ("", "", "", "", " ", "\n", "\t", "\r", "  ", " \t\r\n")
_TEXTS = (
    "",
    "a",
    "n1",
    "node-0001",
    "GPU-8f1c2a3b-77aa-4c1d",
    "x" * 17,
    "}",
    "]",
    ",",
    ":",
    "[{",
    "null",
    "~\x7f",
    "1.5",
)
_LONG_TEXTS = ("x" * 200, "x" * 201, "x" * 256, "x" * 257)
_ODD_TEXTS = ("ü", "\\n", "\\u0041", "\\", '"', "\x1f", "\x00", "日本", "\x80", "é" * 9)
_PRICE = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
_ODD_VALUES = (
    "null",
    "true",
    "[]",
    "{}",
    '"x"',
    "[[0]]",
    '{"a":1}',
    "-1",
    "1e400",
    "NaN",
    "",
    "5.0",
    "[null]",
)
_ODD_KEYS = (
    "specversion",
    "usage",
    "Node",
    "node ",
    "time_msx",
    "",
    "a_key_of_more_than_16_bytes",
    "n\\u006fde",
)

# What a byte may become: what means something in JSON, or is near to it.
_BYTES = np.frombuffer(
    b'0123456789..,,::""[]{}eE+-\\/ \t\r\n\x00\x0b\x1f!\x7f\x80\xc3\xffnultrfaxg_', np.uint8
)


def number(rng: random.Random, most: float) -> str:
    """A number, nearly always from 0 to `most`."""
    value = rng.random() * most
    forms = [
        lambda: repr(value),
        lambda: f"{value:.{rng.randrange(1, 18)}f}",
        lambda: f"{value:.3f}",
        lambda: f"{value:.{rng.randrange(17)}e}",
        lambda: f"{value:.{rng.randrange(1, 12)}g}",
        lambda: str(rng.randrange(int(most) + 1)),
        lambda: rng.choice(("0", "1", "0.0", "1.0", "0e5", "1E0", "10e-1", "0.1e1", "0.000")),
        lambda: near_half(rng, value),
    ]
    odd = [
        lambda: repr(value * 10.0 ** -rng.randrange(25)),
        lambda: f"{rng.randrange(10 ** rng.randrange(1, 20))}e-{rng.randrange(26)}",
        lambda: f"0.{rng.randrange(10 ** rng.randrange(1, 20))}",
        lambda: rng.choice(
            ("-0", "-0.0", "00", "01.5", ".5", "1.", "1e", "+1", "0x1", "", "1e+", "9" * 30, "-1", "1.01")
        ),
    ]
    return rng.choice(odd if rng.random() < 0.04 else forms)()


def near_half(rng: random.Random, value: float) -> str:
    """Decimals at or beside the middle between two doubles, where rounding is hardest."""
    high, low = value.as_integer_ratio(), float(np.nextafter(value, 2)).as_integer_ratio()
    digits = rng.randrange(12, 19)
    middle = (high[0] * low[1] + low[0] * high[1]) * 10**digits // (2 * high[1] * low[1])
    whole, part = divmod(middle + rng.randrange(-1, 2), 10**digits)
    return f"{whole}.{part:0{digits}}"


def message(rng: random.Random) -> bytes:
    """A message of any form; about half of them are valid."""

    def space() -> str:
        return rng.choice(_SPACES) if loose else tight

    def text() -> str:
        chance = rng.random()
        texts = _ODD_TEXTS if chance < 0.004 else _LONG_TEXTS if chance < 0.02 else _TEXTS
        return f'"{rng.choice(texts)}"'

    def values(most: float) -> str:
        n = count if rng.random() < 0.995 else rng.randrange(4)
        if n == 1 and rng.random() < 0.4:
            return number(rng, most)
        return "[" + f"{space()},{space()}".join(number(rng, most) for _ in range(n)) + space() + "]"

    loose, tight = rng.random() < 0.3, rng.choice(("", "", " "))
    count = rng.choice((1, 1, 1, 2, 2, 3))
    edges_ms = (MIN_TIME_MS + rng.randrange(-1, 2), NEWEST_MS + rng.randrange(-1, 2))
    times_ms = (NOW_MS, NOW_MS, rng.randrange(NOW_MS, NEWEST_MS), rng.randrange(NOW_MS, NEWEST_MS), *edges_ms)
    fields = {
        "source": f'"{rng.choice("st")}"',
        "time_ms": str(rng.choice(times_ms)),
        "interval_ms": str(rng.choice((1000, 10_000, 1, 3_600_000, rng.randrange(3_600_002)))),
        "node": text(),
        "util_ratio": values(1),
    }
    if count > 1 or rng.random() < 0.7:
        ids = [text() if rng.random() < 0.2 else f'"g{k}"' for k in range(count)]
        fields["gpus"] = f"[{space()}" + f"{space()},{space()}".join(ids) + space() + "]"
    else:
        fields["gpu"] = text()
    optional = (
        ("id", text(), 0.5),
        ("job_id", text(), 0.6),
        (
            "attempt",
            rng.choice(("1", "2", "3", "17", "2147483647", "null", "2147483648", "0", "01", "1.0")),
            0.2,
        ),
        ("sm_ratio", values(1), 0.2),
        ("tensor_ratio", values(1), 0.2),
        ("memory_used_mib", values(81_920), 0.3),
        ("power_w", values(700), 0.3),
        (rng.choice(_PRICE[:-1]), text(), 0.2),
        ("purchase", rng.choice(('"spot"', '"on_demand"', '"owned"')), 0.1),
        (rng.choice(_ODD_KEYS), rng.choice(_ODD_VALUES), 0.01),
        (rng.choice(list(fields)), rng.choice(_ODD_VALUES), 0.01),
        (rng.choice(("gpu", "gpus", "id", "job_id", "attempt", "power_w", "zone")), "null", 0.1),
    )
    fields |= {name: value for name, value, share in optional if rng.random() < share}
    if rng.random() < 0.02:
        del fields[rng.choice(list(fields))]
    pairs = list(fields.items())
    if rng.random() < 0.5:
        rng.shuffle(pairs)
    if rng.random() < 0.02:
        pairs.append(rng.choice(pairs))
    body = ",".join(f'{space()}"{name}"{space()}:{space()}{value}{space()}' for name, value in pairs)
    return f"{space()}{{{body}}}{space()}".encode()


def accidents(rng: np.random.Generator, messages: list[bytes], count: int, in_turn: bool) -> Packed:
    """Copies of the messages: drawn at random, most of them with one or two accidents; or in turn, most of them without."""
    sizes = np.array([len(each) for each in messages])
    width = int(sizes.max()) + 16
    table = np.frombuffer(b"".join(each.ljust(width, b"\xfe") for each in messages), np.uint8).reshape(
        -1, width
    )
    picked = np.arange(count) % len(messages) if in_turn else rng.integers(len(messages), size=count)
    rows, size = table[picked], sizes[picked]
    column = np.arange(width)
    for share in (0.3, 0.05) if in_turn else (0.7, 0.15):
        kind = np.where(rng.random(count) < share, rng.integers(8, size=count), -1)
        at = (rng.random(count) * size).astype(np.int64)
        byte = rng.choice(_BYTES, count)

        def place(number: int, kind: np.ndarray = kind) -> np.ndarray:
            return np.flatnonzero(kind == number)

        i = place(0)
        rows[i, at[i]] = byte[i]
        i = place(1)
        rows[i, at[i]] ^= np.uint8(1) << rng.integers(8, size=len(i), dtype=np.uint8)
        i = place(2)  # one byte more
        rows[i] = np.take_along_axis(rows[i], column - (column > at[i, None]), 1)
        rows[i, at[i]] = byte[i]
        size[i] += 1
        i = place(3)  # some bytes less
        less = np.minimum(rng.choice([1, 1, 2, 5], len(i)), size[i] - at[i])
        rows[i] = np.take_along_axis(
            rows[i], np.minimum(column + (column >= at[i, None]) * less[:, None], width - 1), 1
        )
        size[i] -= less
        i = place(4)  # cut off
        size[i] = at[i]
        i = place(5)  # another one's end
        other = rng.integers(len(messages), size=len(i))
        rows[i] = np.where(column < at[i, None], rows[i], table[other])
        size[i] = np.maximum(sizes[other], at[i])
        for i in (place(6), place(7)):  # another digit: most of these remain valid
            digits = np.where((rows[i] >= 48) & (rows[i] < 58), (column * 7 + at[i, None]) % 101, -1).argmax(
                1
            )
            rows[i, digits] = np.where(
                (rows[i, digits] >= 48) & (rows[i, digits] < 58), 48 + byte[i] % 10, rows[i, digits]
            )
        size = np.minimum(size, width)
    return Packed(rows.reshape(-1), np.arange(count) * width, size.astype(np.int32))
