"""Finds wanted metrics in Prometheus text, in one pass over its bytes: whose they are, and their values.

A line that is not `name{label="value",...} number`, or whose name nobody wants, is passed over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels._word import load_word
from streams.engine.kernels.arrays import F64, I64, U8
from streams.engine.kernels.json_number import scan_number
from streams.engine.kernels.json_scan import (
    CLOSE_OBJECT,
    COMMA,
    OPEN_OBJECT,
    QUOTE,
    byte_at,
    first_lane,
    same_bytes,
    string_end,
)

_SPACE, _TAB, _NEWLINE, _LAST_BLANK = 32, 9, 10, 13
_HASH, _BACKSLASH, _EQUALS, _UNDERLINE = 35, 92, 61, 95
_ZERO, _NINE = 48, 57
_UPPER_A, _UPPER_Z, _LOWER_A, _LOWER_Z = 65, 90, 97, 122

# Newlines are looked for in seven one-byte lanes of a word: with an eighth, sums would overflow.
_LANES = 7
_ALL_LANES = 2**56 - 1
_ONES = 0x01010101010101
_LOW_BITS, _HIGH_BITS, _NEWLINES = 0x7F * _ONES, 0x80 * _ONES, _NEWLINE * _ONES

#: What `scan_metrics` answers instead of a count where there are more label sets than rows for them.
TOO_MANY = -1


class Names(NamedTuple):
    """Names one after the other in `text`, where each ends, and what each means: several may mean the same."""

    text: U8
    ends: I64
    meanings: I64


@helper
def _after_blanks(data: U8, at: int) -> int:
    """The first position from `at` on that is neither a space nor a tab."""
    while at < data.size and (data[at] == _SPACE or data[at] == _TAB):
        at += 1
    return at


@helper
def _is_blank(byte: int) -> bool:
    """Whether it is white space of ASCII, which ends a value."""
    return byte == _SPACE or _TAB <= byte <= _LAST_BLANK


@helper
def _is_letter(byte: int) -> bool:
    """Whether a label's name may begin with it."""
    return _LOWER_A <= byte <= _LOWER_Z or _UPPER_A <= byte <= _UPPER_Z or byte == _UNDERLINE


@helper
def _quoted_end(data: U8, at: int) -> int:
    """The position of the quote that closes the text which begins at `at`; -1 if its line has none."""
    end = string_end(data, at, data.size)
    if end >= 0:
        return end
    # It has an escape, or characters beyond ASCII.
    while at < data.size and data[at] != _NEWLINE:
        if data[at] == QUOTE:
            return at
        if data[at] == _BACKSLASH:
            at += 1
            if byte_at(data, at, data.size) == _NEWLINE:
                return -1
        at += 1
    return -1


@helper
def _listed(data: U8, at: int, size: int, names: Names) -> int:
    """Which of the names stands at `at`; -1: none."""
    begin = 0
    for number in range(names.ends.size):
        end = int(names.ends[number])
        if end - begin == size and same_bytes(data, at, names.text, begin, size):
            return number
        begin = end
    return -1


@helper
def _read_labels(data: U8, at: int, labels: Names, spans: I64) -> int:
    """Store where the values of the wanted labels stand; return the position of the closing brace, -1: no labels.

    `spans`: from and to of the whole text between the braces, then of each meaning in that text; 0 and 0 where it has no
    value.
    """
    spans[:] = 0
    spans[0] = at
    while True:
        at = _after_blanks(data, at)
        byte = byte_at(data, at, data.size)
        if byte == CLOSE_OBJECT:
            spans[1] = at
            return at
        name_at = at
        if not _is_letter(byte):
            return -1
        while _is_letter(byte) or _ZERO <= byte <= _NINE:
            at += 1
            byte = byte_at(data, at, data.size)
        label = _listed(data, name_at, at - name_at, labels)
        at = _after_blanks(data, at)
        if byte_at(data, at, data.size) != _EQUALS:
            return -1
        at = _after_blanks(data, at + 1)
        if byte_at(data, at, data.size) != QUOTE:
            return -1
        value_at = at + 1
        at = _quoted_end(data, value_at)
        if at < 0:
            return -1
        if label >= 0 and at > value_at:
            place = 2 + 2 * int(labels.meanings[label])
            if spans[place + 1] == 0:
                spans[place], spans[place + 1] = value_at - spans[0], at - spans[0]
        at = _after_blanks(data, at + 1)
        byte = byte_at(data, at, data.size)
        if byte == COMMA:
            at += 1
        elif byte != CLOSE_OBJECT:
            return -1


@helper
def _is_set(data: U8, at: int, spans: I64) -> bool:
    """Whether the labels at `at` are these, to the byte."""
    size = int(spans[1] - spans[0])
    return byte_at(data, at + size, data.size) == CLOSE_OBJECT and same_bytes(
        data, at, data, int(spans[0]), size
    )


@helper
def _find_set(data: U8, spans: I64, count: int) -> int:
    """Which of the first sets is the one behind them; `count`: none, it is new."""
    for number in range(count):
        if _is_set(data, int(spans[count, 0]), spans[number]):
            return number
    return count


@helper
def _other_lanes(word: int) -> int:
    """A word with the high bit of each of its low seven bytes set where that byte is no newline."""
    word &= _ALL_LANES
    return ((word & _LOW_BITS) ^ _NEWLINES) + _LOW_BITS | word


@helper
def _next_line(data: U8, at: int) -> int:
    """Where the line after that of `at` begins, or the end of all: 28 bytes a step, then 7, then one."""
    stop = data.size - 4 * _LANES - 1
    while at <= stop:
        others = (
            _other_lanes(load_word(data, at))
            & _other_lanes(load_word(data, at + _LANES))
            & _other_lanes(load_word(data, at + 2 * _LANES))
            & _other_lanes(load_word(data, at + 3 * _LANES))
        )
        if others & _HIGH_BITS != _HIGH_BITS:
            break
        at += 4 * _LANES
    stop = data.size - _LANES - 1
    while at <= stop:
        lanes = _other_lanes(load_word(data, at)) & _HIGH_BITS ^ _HIGH_BITS
        if lanes != 0:
            return at + first_lane(lanes >> 7) + 1
        at += _LANES
    while at < data.size and data[at] != _NEWLINE:
        at += 1
    return at + 1


@helper
def _name_end(data: U8, at: int) -> int:
    """The position of the brace that ends the metric's name at `at`; -1: no labels follow it."""
    while at < data.size and data[at] > _SPACE:
        if data[at] == OPEN_OBJECT:
            return at
        at += 1
    return -1


@helper
def _read_value(data: U8, at: int, below: float) -> float:
    """The plain number that white space separates from what ends before `at`; -1.0: there is none."""
    begin = _after_blanks(data, at)
    if begin == at:
        return -1.0
    value, end = scan_number(data, begin, data.size)
    if end < 0 or (end < data.size and not _is_blank(int(data[end]))) or value >= below:
        return -1.0
    return value


@kernel
def scan_metrics(
    data: U8, metrics: Names, labels: Names, divisors: F64, below: float, spans: I64, values: F64, ranks: I64
) -> int:
    """Find the wanted metrics; return how many different label sets they have, or TOO_MANY.

    Of several metrics or labels with one meaning the one with the lowest number counts that has a value; of several lines
    of one metric and label set the last. A value is a plain number of at most 18 digits that is less than `below`, and is divided by its
    metric's divisor. Filled are, a row for each label set, also of one without a plain number, in the order of their first lines: `spans` (see `_read_labels`);
    `values`, a column for each meaning, NaN where there is none; `ranks`, which metrics these are.
    """
    next_at, count, metric, guess, name_at, name_size = 0, 0, -1, 0, 0, 0
    while next_at < data.size:
        at = next_at
        next_at = _next_line(data, at)
        if data[at] == _HASH:
            continue
        # Mostly lines of one metric follow each other, and each metric has the same label sets in the same order.
        if name_size == 0 or not same_bytes(data, at, data, name_at, name_size):
            name_end = _name_end(data, at)
            name_at, name_size, guess = at, name_end + 1 - at if name_end >= 0 else 0, 0
            metric = _listed(data, at, name_end - at, metrics) if name_end >= 0 else -1
        if metric < 0:
            continue
        at += name_size
        if guess < count and _is_set(data, at, spans[guess]):
            found = guess
            at += int(spans[guess, 1] - spans[guess, 0])
        else:
            if count == spans.shape[0]:
                return TOO_MANY
            at = _read_labels(data, at, labels, spans[count])
            if at < 0:
                continue
            found = _find_set(data, spans, count)
        guess = found + 1
        if found == count:
            count += 1
            values[found] = np.nan
            ranks[found] = metrics.ends.size
        value = _read_value(data, at + 1, below)
        if value < 0.0:
            continue
        meaning = int(metrics.meanings[metric])
        if metric <= ranks[found, meaning]:
            ranks[found, meaning] = metric
            values[found, meaning] = value / divisors[metric]
    return count
