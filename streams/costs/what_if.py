"""What the rest of a month would cost on another instance, in another region, with more spot, or with less idle time.

What was paid in the last four weeks is priced at both places by the price list of now; what is to come changes in that ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS
from schemas.escaping import visible
from schemas.events import PRICE_FIELDS, Component
from streams.costs.day_parts import Steps
from streams.costs.idle_nodes import cells
from streams.costs.metrics import TOTAL
from streams.costs.parts import HourSpan, Parameters, hour_conditions, joins, level_columns
from streams.costs.request import CostRequest, Period
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import usage_context
from streams.engine.pricing.kinds import Kind
from streams.errors import TrainfareError, WrongUseError

_BASIS_MS: Final = 28 * DAY_MS
_CENTS: Final = Decimal("0.01")
_NAME_MAX: Final = 256
_CELLS_MAX: Final = 50_000
_SPOT: Final = "spot"
_ON_DEMAND: Final = "on_demand"
#: What a share of spot moves; reserved and committed use stays.
_MOVED: Final = ("", _SPOT, _ON_DEMAND)
_PAID: Final = """SELECT {level} AS name, {fields}, sum(toDecimal128(h.gpu_cost_usd, 9)) AS gpu_usd, sum({total}) AS usd
FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{joins}
GROUP BY name, {fields} ORDER BY name, {fields} LIMIT {most:UInt64}"""


class NotForecastError(TrainfareError):
    """What is asked for is not known: nothing has cost anything, or no price applies."""


class PriceSource(NamedTuple):
    """Where the price list is: its statement, and what makes the book of its rows."""

    sql: str
    book_of: Callable[[Iterable[Mapping[str, Any]]], PriceBook]


@dataclass(frozen=True)
class WhatIf:
    """What would be different; empty or None: as it is."""

    instance: str = ""
    region: str = ""
    spot_share: Fraction | None = None
    idle_cut: Fraction | None = None

    @classmethod
    def of(cls, text: Mapping[str, str], named: Callable[[str], str]) -> WhatIf:
        """Of texts by the names of its fields.

        Raises:
            WrongUseError: In one line, beginning with the parameter's name.
        """
        for name in ("instance", "region"):
            if len(text.get(name, "").encode(errors="replace")) > _NAME_MAX:
                raise WrongUseError(f"{named(name)}: expected a name of {_NAME_MAX} bytes at most")
        return cls(
            text.get("instance", ""),
            text.get("region", ""),
            _share(named("spot_share"), text.get("spot_share", "")),
            _share(named("idle_cut"), text.get("idle_cut", "")),
        )

    @property
    def moves(self) -> bool:
        """Whether jobs would be paid by other prices."""
        return bool(self.instance or self.region) or self.spot_share is not None


NO_CHANGE: Final = WhatIf()


@dataclass(frozen=True)
class WhatIfChanges:
    """What would be different, by name: ratios of what is to come, and idle cost per month that would not be paid."""

    words: tuple[str, ...] = ()
    ratios: Mapping[str, Fraction] = field(default_factory=dict)
    moves: bool = False
    idle_usd_per_hour: Decimal | None = None
    idle_cut: Fraction = Fraction(0)

    def row(self, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the month of a subject would cost."""
        if not self.moves:
            return {}
        if row["forecast_usd"] is None:
            return {"what_if_usd": None}
        rest = Fraction(row["forecast_usd"] - row["spent_usd"]) * self.ratios.get(name, Fraction(1))
        return {"what_if_usd": (row["spent_usd"] + _decimal(rest)).quantize(_CENTS)}

    def total(
        self, total: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], left_h: int
    ) -> dict[str, Any]:
        """What all would cost: the rest changes as that of all names together; and the idle cost saved."""
        found: dict[str, Any] = {}
        if self.moves:
            known = [row for row in rows if row["forecast_usd"] is not None]
            before = sum((Fraction(row["forecast_usd"] - row["spent_usd"]) for row in known), Fraction(0))
            after = sum((Fraction(row["what_if_usd"] - row["spent_usd"]) for row in known), Fraction(0))
            found["what_if_usd"] = None
            if total["forecast_usd"] is not None:
                rest = Fraction(total["forecast_usd"] - total["spent_usd"])
                found["what_if_usd"] = (
                    total["spent_usd"] + _decimal(rest * after / before if before else rest)
                ).quantize(_CENTS)
        if self.idle_usd_per_hour is not None:
            saved = Fraction(self.idle_usd_per_hour) * left_h * self.idle_cut
            found["idle_saved_usd"] = _decimal(saved).quantize(_CENTS)
        return found


def changes_steps(
    what_if: WhatIf,
    by: str,
    where: tuple[tuple[str, str], ...],
    until_ms: int,
    prices: PriceSource,
) -> Steps[WhatIfChanges]:
    """Ask what was paid in the four weeks before an instant, and what it would have been.

    Raises:
        NotForecastError: The price list has no price of what is asked for.
        WrongUseError: There are too many cells, or idle time is asked for of some jobs.
    """
    words: list[str] = []
    since = HourSpan(max(until_ms - _BASIS_MS, 0), until_ms)
    ratios: dict[str, Fraction] = {}
    if what_if.moves:
        answer = yield prices.sql, {}
        book = prices.book_of(answer.records())
        ratios = yield from _ratios(what_if, by, where, since, _Places(book, until_ms))
        words += [f"instance {what_if.instance}"] * bool(what_if.instance)
        words += [f"region {what_if.region}"] * bool(what_if.region)
        words += (
            [] if what_if.spot_share is None else [f"{float(what_if.spot_share):.0%} of GPU cost on spot"]
        )
    idle = None
    if what_if.idle_cut is not None:
        if where:
            raise WrongUseError("idle_cut: idle nodes are nobody's; ask without where")
        found = yield from cells((), Period.all, since)
        place = found.names.index("idle_cost_usd")
        known_h = max((until_ms - max(since.begin_ms or 0, 0)) // HOUR_MS, 1)
        idle = sum((Decimal(str(row[place])) for row in found.rows), Decimal(0)) / known_h
        words.append(f"{float(what_if.idle_cut):.0%} less idle time of nodes")
    return WhatIfChanges(tuple(words), ratios, what_if.moves, idle, what_if.idle_cut or Fraction(0))


class _Places:
    """Prices of a GPU-hour by price fields, at one instant."""

    def __init__(self, book: PriceBook, at_ms: int) -> None:
        self._book, self._at_ms = book, at_ms
        self._known: dict[tuple[str, ...], Fraction | None] = {}

    def gpu_type_of(self, instance: str) -> str:
        """The type of GPU that the price list says an instance has; empty: it says none."""
        types = {
            event.match.get("gpu_type", "")
            for event in self._book.events
            if event.component is Component.gpu and event.match.get("instance_type") == instance
        } - {""}
        return types.pop() if len(types) == 1 else ""

    def price(self, fields: Mapping[str, str]) -> Fraction | None:
        """What a unit of GPU-time costs there; None: nothing says."""
        key = tuple(fields[name] for name in PRICE_FIELDS)
        if key not in self._known:
            context = usage_context(tuple(each or None for each in key), None, None)
            found = self._book.price_at(context, Component.gpu, Kind.GPU_TIME, self._at_ms)
            self._known[key] = None if found is None else Fraction(found.usd_nano, found.divisor)
        return self._known[key]


def _ratios(
    what_if: WhatIf, by: str, where: tuple[tuple[str, str], ...], span: HourSpan, places: _Places
) -> Steps[dict[str, Fraction]]:
    request = CostRequest(by=(by,), where=where)
    parameters: Parameters = {"most": _CELLS_MAX + 1}
    level = level_columns(((0, by),), parameters)[0].removesuffix(" AS level_0")
    conditions = hour_conditions(request, span, parameters)
    fields = ", ".join(f"h.{name}" for name in PRICE_FIELDS)
    sql = _PAID
    for word, part in (("{level}", level), ("{fields}", fields), ("{total}", TOTAL), ("{where}", conditions), ("{joins}", joins(level))):  # fmt: skip
        sql = sql.replace(word, part)
    rows = list((yield sql, parameters).rows())
    if len(rows) > _CELLS_MAX:
        raise WrongUseError(f"by: more than {_CELLS_MAX} cells of names and places; ask for fewer with where")
    before: dict[str, Fraction] = {}
    after: dict[str, Fraction] = {}
    for name, *values in rows:
        *held, gpu_usd, usd = values
        gpu, whole = Fraction(Decimal(str(gpu_usd))), Fraction(Decimal(str(usd)))
        cell = dict(zip(PRICE_FIELDS, map(str, held), strict=True))
        before[str(name)] = before.get(str(name), Fraction(0)) + whole
        changed = gpu * _ratio(what_if, cell, places) if gpu else gpu
        after[str(name)] = after.get(str(name), Fraction(0)) + whole - gpu + changed
    return {name: after[name] / usd for name, usd in before.items() if usd}


def _ratio(what_if: WhatIf, cell: Mapping[str, str], places: _Places) -> Fraction:
    """What GPU-time of these price fields would cost, for each dollar that it costs now."""
    now = places.price(cell)
    if not now:
        return Fraction(1)  # it is free, or what priced it is gone: nothing is known to change
    there = dict(cell)
    if what_if.instance:
        there |= {
            "instance_type": what_if.instance,
            "gpu_type": places.gpu_type_of(what_if.instance) or cell["gpu_type"],
        }
    if what_if.region:
        there |= {"region": what_if.region, "zone": ""}
    shares = {there["purchase"]: Fraction(1)}
    if what_if.spot_share is not None and there["purchase"] in _MOVED:
        shares = {_SPOT: what_if.spot_share, _ON_DEMAND: 1 - what_if.spot_share}
    found = Fraction(0)
    for purchase, share in shares.items():
        price = places.price({**there, "purchase": purchase}) if share else Fraction(0)
        if price is None:
            named = ", ".join(
                f"{name}={value}" for name, value in {**there, "purchase": purchase}.items() if value
            )
            raise NotForecastError(
                f"what if: no price of GPU-time applies to {visible(named[:400])}; `trainfare prices load` adds prices"
            )
        found += price * share
    return found / now


def _share(name: str, text: str) -> Fraction | None:
    if not text:
        return None
    try:
        found = Decimal(text) if len(text) <= 20 else Decimal("NaN")
    except InvalidOperation:
        found = Decimal("NaN")
    # A share of very many decimals would be a fraction of as many digits.
    if not found.is_finite() or not 0 <= found <= 1 or found != round(found, 9):
        raise WrongUseError(
            f"{name}: got '{visible(text[:40])}', expected a share from 0 to 1 with 9 decimals at most, e.g. 0.5"
        )
    return Fraction(found)


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(round(amount * 10**9)).scaleb(-9)
