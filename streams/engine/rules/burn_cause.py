"""Finds why a job costs more than expected: the cause of the largest share of the extra cost in a window, and what to do.

A pure function of what the job pays as known at an instant. The rate is compared with that of the last time at which it
was no more than expected: they differ by size or by price. On top comes what nothing explains. Traffic has a rule of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from schemas.events import PRICE_FIELDS
from streams.engine.rules.formatting import count, rounded_usd, short, short_instant, usd
from streams.engine.rules.stretches import Stretch
from streams.engine.timeline.attempts import Timeline
from streams.engine.windows.expected import Expected

_PURCHASE: Final = PRICE_FIELDS.index("purchase")
_HARDWARE: Final = (PRICE_FIELDS.index("gpu_type"), PRICE_FIELDS.index("instance_type"))
# The kinds of causes; of equal shares the first one is named.
SIZE, PURCHASE, HARDWARE, PRICE, REST = range(5)
# As the judge has it: a threshold that is missed by less than this share of it is reached.
_NOISE: Final = 1e-9
#: What to do about a job that has grown, and what is said instead once it is as large as before.
SCALE_BACK: Final = "scale it back or declare it"
IS_BACK: Final = "that is over, declare it if it comes again"


class JobRates(NamedTuple):
    """What a job pays and what is expected, as known at an instant.

    `stretches` may end after the instant; `declared` and `planned` are those of Expected. `passed` is what is known of the
    first stretches: a cause adds to it.
    """

    timelines: Mapping[int, Timeline]
    stretches: Sequence[Stretch]
    declared: Sequence[tuple[int, int]]
    planned: Sequence[tuple[int, int, int]]
    passed: list[Passed] | None = None


class Passed(NamedTuple):
    """What later causes need of a stretch and all before it."""

    quoted_nano_per_hour: float | None  # None: nothing was paid yet
    base: Stretch | None  # the last one at no more than the expected rate
    since: Mapping[int, tuple[object, int]]  # by kind of cause: its value, and since when


class _Extra(NamedTuple):
    """Extra cost by one change, in nano-dollars, and what changed: from `before` to `after`, in force until `until_ms`."""

    nano: float
    before: Stretch | None
    after: Stretch
    until_ms: int


def burn_cause(paid: JobRates, from_ms: int, at_ms: int) -> str:
    """Return the cause of the largest share of the extra cost in [from_ms, at_ms), and what to do, in a few words.

    '' if nothing is known of what the job pays, or nothing of it is above what is expected.
    """
    extras, expected = _extras(paid, from_ms, at_ms)
    largest, largest_nano = _largest(extras)
    if expected is None or largest_nano <= 0:
        return ""
    since_ms, extra = _costliest(extras[largest])
    if largest == REST or extra.before is None:
        return _rest(paid, extra, since_ms, expected, at_ms)
    when = _when(since_ms, extra.until_ms, at_ms) + _retry(paid.timelines, extra.before, extra.after)
    if largest == SIZE:
        sizes = count(extra.after.units, extra.after.noun), count(extra.before.units)
        advice = IS_BACK if _is_back(paid, extra, expected, at_ms) else SCALE_BACK
        return f"{sizes[0]} {when}, {sizes[1]} before; {advice}"
    return f"{_price(largest, extra.before, extra.after, when)} or declare it"


def _is_back(paid: JobRates, extra: _Extra, expected: Expected, at_ms: int) -> bool:
    """Whether a change is over, and the job pays no more than what is expected since."""
    if extra.until_ms >= at_ms:
        return False
    rates = (each.rate for each in paid.stretches if each.from_ms < at_ms <= each.until_ms)
    return next(rates, 0.0) * HOUR_MS <= expected.at(at_ms - 1) * (1 + _NOISE)


def dearer_sku(paid: JobRates, from_ms: int, at_ms: int) -> str:
    """The SKU of which a revision is the cause of the burn in [from_ms, at_ms); '': something else is."""
    extras, _ = _extras(paid, from_ms, at_ms)
    largest, largest_nano = _largest(extras)
    if largest != PRICE or largest_nano <= 0:
        return ""
    _, extra = _costliest(extras[PRICE])
    return "" if extra.before is None else _risen_sku(extra.before, extra.after)


def _largest(extras: Mapping[int, Mapping[int, _Extra]]) -> tuple[int, int]:
    """Return the kind of cause with the largest share, and that share in nano-dollars."""
    # Whole nano-dollars: shares that are equal but for rounding are equal.
    nano = {kind: round(fsum(each.nano for each in changes.values())) for kind, changes in extras.items()}
    largest = min(nano, key=lambda kind: (-nano[kind], kind), default=REST)
    return largest, nano.get(largest, 0)


def _costliest(changes: Mapping[int, _Extra]) -> tuple[int, _Extra]:
    """Return of several changes of a kind the one that cost most, and its instant; of equal ones the last."""
    return max(changes.items(), key=lambda item: (round(item[1].nano), item[0]))


def _extras(paid: JobRates, from_ms: int, at_ms: int) -> tuple[dict[int, dict[int, _Extra]], Expected | None]:
    """Return the extra cost in the window by kind of cause and instant of change, and the expected rate.

    None: nothing was ever paid.
    """
    extras: dict[int, dict[int, _Extra]] = {}
    passed = [] if paid.passed is None else paid.passed
    # Of a long history, only the stretches in the window are read again.
    first = min(bisect_right(paid.stretches, from_ms, key=_until_ms), len(passed))
    known = passed[first - 1] if first else Passed(None, None, {})
    quoted, base, since = known.quoted_nano_per_hour, known.base, dict(known.since)
    expected = None if quoted is None else Expected(paid.declared, paid.planned, quoted)
    for place in range(first, len(paid.stretches)):
        stretch = paid.stretches[place]
        if stretch.from_ms >= at_ms:
            break
        if place and place == len(passed) + 1 and paid.stretches[place - 1].until_ms <= at_ms:
            passed.append(Passed(quoted, base, dict(since)))
        if expected is None:
            if not stretch.rate or stretch.unpriced:
                continue
            quoted = stretch.rate * HOUR_MS
            expected = Expected(paid.declared, paid.planned, quoted)
        until_ms = min(stretch.until_ms, at_ms)
        pieces = expected.between(stretch.from_ms, until_ms)
        ends_ms = [*(piece_ms for piece_ms, _ in pieces[1:]), until_ms]
        for (piece_ms, per_hour), end_ms in zip(pieces, ends_ms, strict=True):
            usual = per_hour / HOUR_MS
            if stretch.rate <= usual * (1 + _NOISE):
                base = stretch
            for kind, value in _values(stretch, per_hour):
                if kind not in since or since[kind][0] != value:
                    since[kind] = (value, piece_ms)
            inside_ms = end_ms - max(piece_ms, from_ms)
            if inside_ms <= 0:
                continue
            for kind, rate in _differences(base, stretch, usual):
                changes = extras.setdefault(kind, {})
                since_ms = since[kind][1]
                before = changes[since_ms].nano if since_ms in changes else 0.0
                changes[since_ms] = _Extra(before + rate * inside_ms, base, stretch, end_ms)
    return extras, expected


def _until_ms(stretch: Stretch) -> int:
    return stretch.until_ms


def _values(stretch: Stretch, per_hour: float) -> Iterator[tuple[int, object]]:
    """Yield what each kind of cause is a change of."""
    yield SIZE, (stretch.noun, stretch.units)
    yield PURCHASE, stretch.fields[_PURCHASE]
    yield HARDWARE, _hardware(stretch)
    yield PRICE, tuple(sorted((sku, price.usd_nano) for sku, price in stretch.prices.items()))
    yield REST, per_hour


def _differences(base: Stretch | None, now: Stretch, usual: float) -> Iterator[tuple[int, float]]:
    """Yield what each kind of cause adds to the rate, in nano-dollars per ms; together they are the extra rate."""
    if base is None:
        yield REST, now.rate - usual
        return
    yield REST, base.rate - usual
    if base is now:
        return
    size = 0.0
    if base.noun == now.noun:
        # What both changed together is shared evenly.
        size = (now.units - base.units) * (base.rate / base.units + now.rate / now.units) / 2
    if size:
        yield SIZE, size
    price = now.rate - base.rate - size
    if abs(price) <= now.rate * _NOISE:
        return
    if base.fields[_PURCHASE] != now.fields[_PURCHASE]:
        yield PURCHASE, price
    elif _hardware(base) != _hardware(now):
        yield HARDWARE, price
    else:
        yield PRICE, price


def _price(kind: int, before: Stretch, after: Stretch, when: str) -> str:
    """Return how the price changed, and what to do."""
    if kind == PRICE:
        return _revision(before, after, when)
    if kind == PURCHASE:
        names = [short(each.fields[_PURCHASE] or "no purchase") for each in (after, before)]
    else:
        names = [short(_hardware(each)) or "other hardware" for each in (after, before)]
    rates = [usd(round(each.rate * HOUR_MS * 1000 / each.units)) for each in (after, before)]
    return (
        f"{names[0]} at {rates[0]} per {after.noun}-h {when}, {names[1]} at {rates[1]} before; move it back"
    )


def _revision(before: Stretch, after: Stretch, when: str) -> str:
    """Return which SKU costs what instead of what."""
    sku = _risen_sku(before, after)
    if not sku:
        skus = ", ".join(map(short, sorted(after.prices.keys() - before.prices.keys()))) or "another SKU"
        return f"priced by {skus} {when}; check the price"
    prices = usd(after.prices[sku].usd_nano), usd(before.prices[sku].usd_nano)
    return f"price of {short(sku)} {prices[0]} {when}, {prices[1]} before; check the price"


def _risen_sku(before: Stretch, after: Stretch) -> str:
    """Return the SKU that has another price, the one whose share of the rate rose most; '': none has."""
    rises = {
        sku: price.rate / after.units - before.prices[sku].rate / before.units
        for sku, price in after.prices.items()
        if sku in before.prices and before.prices[sku].usd_nano != price.usd_nano
    }
    return min(rises, key=lambda name: (-rises[name], name), default="")


def _rest(paid: JobRates, extra: _Extra, since_ms: int, expected: Expected, at_ms: int) -> str:
    last_ms = extra.until_ms - 1
    if any(from_ms <= last_ms < until_ms for from_ms, until_ms, _ in paid.planned):
        source = "planned"
    else:
        source = "declared" if any(from_ms <= last_ms for from_ms, _ in paid.declared) else "quoted"
    pays, expects = rounded_usd(round(extra.after.rate * HOUR_MS)), rounded_usd(round(expected.at(last_ms)))
    when = _when(since_ms, extra.until_ms, at_ms)
    return f"{pays}/h {when} is above the {source} {expects}/h; stop it or declare it"


def _when(since_ms: int, until_ms: int, at_ms: int) -> str:
    since = short_instant(since_ms, at_ms)
    return f"since {since}" if until_ms >= at_ms else f"from {since} to {short_instant(until_ms, at_ms)}"


def _retry(timelines: Mapping[int, Timeline], before: Stretch, after: Stretch) -> str:
    """Return that the change came with a next attempt, and why the one before it ended."""
    if before.attempts == after.attempts:
        return ""
    if len(after.attempts) > 1:
        return f" (attempts {' and '.join(map(str, after.attempts))} at once)"
    number = after.attempts[-1]
    earlier = [each for each in timelines if each < number]
    if not earlier:
        return ""
    last = timelines[max(earlier)]
    reason = last.state if last.reason in ("", "unknown") else short(last.reason)
    return f" (after {reason})"


def _hardware(stretch: Stretch) -> str:
    return next((name for index in _HARDWARE if (name := stretch.fields[index])), "")
