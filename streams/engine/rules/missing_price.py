"""The rule `missing_price`: one alert for each price that is missing, however many jobs lack it.

What jobs have without a price is handed in by five minutes, what nodes have that no job used by whole hours, and the prices
that were known then. It reads nothing.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.units import NANO_PER_USD, READABLE, WATT
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import GPU_TYPE, INSTANCE_TYPE, Context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.nearest import Nearest, nearest
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import sentence, short
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on

EVERY_MS: Final = 300_000
#: It holds while something of so much time has no price.
WINDOW_MS: Final = 24 * 3_600_000
GPU_KIND: Final = "gpu_type"
TRAFFIC_KIND: Final = "traffic"
INSTANCE_KIND: Final = "instance_type"
_GPU, _COMPUTE = "gpu", "compute"
_MILLI_MS_PER_HOUR: Final = 3_600_000_000
#: Enough to see which jobs they are.
_SHOWN: Final = 50
_FIELDS_SHOWN: Final = 3
#: What a price of each unit but GPU-time is per.
_PER: Final = {
    "bytes": "gib",
    "requests": "thousand_requests",
    "mib_ms": "gib_month",
    "instance_milli_ms": "instance_hour",
    "cpu_milli_ms": "vcpu_hour",
    "memory_gib_milli_ms": "memory_gib_hour",
}
#: Values that may stand in a command for a shell; jobs name them.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,47}")
_NOT_IN_SKU: Final = re.compile(r"[^a-z0-9]+")


class UnpricedUsage(NamedTuple):
    """What may be priced alike: GPU-time or compute of one context, or traffic of a component in one unit.

    `of_node`: of nodes that no job used. What a node is, is known by the hour, so it counts when the hour is over.
    """

    component: str
    unit: str
    context: Context
    of_node: bool = False

    @property
    def known_after_ms(self) -> int:
        """Return how long after its beginning it counts."""
        return HOUR_MS if self.of_node else EVERY_MS


class MissingPrice(NamedTuple):
    """The price that is missing: what an alert is about.

    `fields`: what keeps the nearest price from applying; `effective`: it begins later.
    """

    kind: str
    name: str
    fields: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Return the name of the alert's subject."""
        return " ".join([self.name, "+".join(self.fields)]).strip()


class PriceMend(NamedTuple):
    """A price list of one line that ends it, and the command that loads it; `usd` is empty where nobody knows it."""

    header: str
    line: str
    usd: str

    @property
    def command(self) -> str:
        """Return the command for a shell."""
        text = shlex.quote(f"{self.header}\\n{self.line}\\n")
        return f"printf {text} > price.csv && trainfare prices load price.csv"


class UnpricedTimes:
    """When usage had no price: five minutes of jobs and hours of nodes by their beginnings, ascending."""

    def __init__(self, begins: Mapping[UnpricedUsage, Sequence[int]]) -> None:
        self._found = {usage: sorted(of_usage) for usage, of_usage in begins.items()}

    @property
    def is_empty(self) -> bool:
        """Return whether everything had a price."""
        return not self._found

    def at(self, at_ms: int) -> list[tuple[UnpricedUsage, int]]:
        """Return what had no price in the window before an instant, and when it first had none."""
        found: list[tuple[UnpricedUsage, int]] = []
        for usage, begins in self._found.items():
            place = bisect_left(begins, at_ms - WINDOW_MS)
            if place < len(begins) and begins[place] + usage.known_after_ms <= at_ms:
                found.append((usage, begins[place]))
        return found


class MissingPriceFinder:
    """Finds which price is missing, by one book; remembers what it found, as nothing else determines it."""

    def __init__(self, book: PriceBook) -> None:
        self.book = book
        self._nearest: dict[tuple[Context, int], Nearest | None] = {}

    def nearest(self, usage: UnpricedUsage, first_ms: int) -> Nearest | None:
        """Return the nearest price of GPU-time."""
        asked = usage.context, first_ms
        if asked not in self._nearest:
            self._nearest[asked] = nearest(self.book, *asked)
        return self._nearest[asked]

    def missing(self, usage: UnpricedUsage, first_ms: int) -> MissingPrice:
        """Return which price is missing for usage that had none from `first_ms` on."""
        if usage.component == _COMPUTE:
            return MissingPrice(INSTANCE_KIND, usage.context[INSTANCE_TYPE] or "(no instance_type)")
        if usage.component != _GPU:
            return MissingPrice(TRAFFIC_KIND, f"{usage.component} {usage.unit}")
        gpu_type = usage.context[GPU_TYPE]
        name = product(gpu_type) if gpu_type else "(no gpu_type)"
        found = self.nearest(usage, first_ms)
        if found is None:
            return MissingPrice(GPU_KIND, name)
        fields = found.fields + (("effective",) if found.is_later else ())
        return MissingPrice(GPU_KIND, name, tuple(sorted(fields)) or ("names",))

    def mend(self, usage: UnpricedUsage, first_ms: int) -> PriceMend | None:
        """Return what mends it; None: the price fields do not say what it is, or are not fit for a command."""
        if usage.component == _COMPUTE:
            instance_type = usage.context[INSTANCE_TYPE]
            match = {"instance_type": instance_type} if instance_type else {}
            if not all(_PLAIN.fullmatch(value) for value in match.values()):
                return None
            per = _PER[usage.unit]
            sku = self._new_sku(instance_type or f"{_COMPUTE}-{per}")
            line = ",".join([sku, _COMPUTE, *match.values(), "USD", per, ""])
            return PriceMend(",".join(["sku", "component", *match, "usd", "per", "from"]), line, "")
        if usage.component != _GPU:
            sku = self._new_sku(f"{usage.component}-{usage.unit}")
            line = f"{sku},{usage.component},USD,{_PER.get(usage.unit, 'gib')},"
            return PriceMend("sku,component,usd,per,from", line, "")
        gpu_type, found = usage.context[GPU_TYPE], self.nearest(usage, first_ms)
        if not gpu_type:
            return None
        match, sku = {"gpu_type": gpu_type}, self._new_sku(gpu_type)
        if found is not None and not found.fields:
            values = dict(zip(MATCH_FIELDS, usage.context, strict=True))
            # As narrow as the one that is there, which begins later; or prices of two names of it differ, and one
            # for this name goes before them.
            match = {name: values[name] or "" for name in found.event.match} | match
            if found.is_later:
                match, sku = dict(found.event.match), found.event.sku
        if not all(_PLAIN.fullmatch(value) for value in (sku, *match.values())):
            return None
        is_same_gpu = found is not None and "gpu_type" not in found.fields and found.event.usd_nano
        usd = _usd_per_gpu(found.event) if found is not None and is_same_gpu else ""
        line = ",".join([sku, *match.values(), usd or "USD", "gpu_hour", ""])
        return PriceMend(",".join(["sku", *match, "usd", "per", "from"]), line, usd)

    def _new_sku(self, name: str) -> str:
        known = {event.sku for event in self.book.events}
        base = _NOT_IN_SKU.sub("-", name.lower()).strip("-")[:40] or "gpu"
        number, sku = 1, base
        while sku in known:
            number += 1
            sku = f"{base}-{number}"
        return sku


def _usd_per_gpu(event: PriceEvent) -> str:
    """Return the price of a GPU-hour in dollars, with up to nine decimals."""
    nano = event.usd_nano // (event.gpus or 1)
    text = f"{nano // NANO_PER_USD}.{nano % NANO_PER_USD:09d}".rstrip("0").rstrip(".")
    return text if nano else ""


class UnpricedHolder(NamedTuple):
    """How much a job or a node had without a price."""

    amount: int
    name: str
    usage: UnpricedUsage


def finding(
    of: LedgerSettings,
    finder: MissingPriceFinder,
    missing: MissingPrice,
    usages: Sequence[tuple[UnpricedUsage, int]],
    holders: Sequence[UnpricedHolder],
    at_ms: int,
) -> LedgerFinding:
    """Return the sentence and the evidence of a missing price."""
    first = dict(usages)
    of_jobs, of_nodes = dict[str, int](), dict[str, int]()
    for each in holders:
        if each.usage in first:
            amounts = of_nodes if each.usage.of_node else of_jobs
            amounts[each.name] = amounts.get(each.name, 0) + each.amount
    shown, is_nodes = of_jobs or of_nodes, not of_jobs
    ordered = sorted(shown, key=lambda name: (-shown[name], name))
    # The usage of which there is most stands for the others: all lack the same fields.
    usage = min(
        (each for each in holders if each.usage in first and each.usage.of_node == is_nodes),
        key=lambda each: (each.name != ordered[0], -each.amount, str(each.usage)),
    ).usage
    mend = finder.mend(usage, first[usage])
    about = _about(finder, missing, usage, first[usage])
    counted = (("job", len(of_jobs)), ("node", len(of_nodes)))
    count = " and ".join(f"{number} {what}{'s' if number > 1 else ''}" for what, number in counted if number)
    name, each_hour = READABLE.get(usage.unit, ("", 0))
    if _is_energy(usage):
        name = "Wh"
    most = f", {shown[ordered[0]] / each_hour:.3g} {name}" if each_hour == _MILLI_MS_PER_HOUR else ""

    def said(at_most: int) -> str:
        return f"{count} (most: {short(ordered[0], at_most)}{most}): no price for {about(at_most)}"

    command = "" if mend is None else mend.command
    summary = sentence(said, command)
    if not command or not summary.endswith(command):
        what = "its evidence has the command" if command else "let their events name price fields"
        summary = sentence(lambda at_most: f"{said(at_most)}; {what}")
    return LedgerFinding(
        "missing_price",
        of.severity,
        missing.kind,
        missing.subject,
        at_ms,
        summary,
        (_evidence_of_nodes if is_nodes else _evidence)(ordered, at_ms, command),
        float(len(of_jobs) + len(of_nodes)),
        margins=(*margins(of.thresholds, len(of_jobs) + len(of_nodes), usage.component),),
    )


def _about(
    finder: MissingPriceFinder, missing: MissingPrice, usage: UnpricedUsage, first_ms: int
) -> Callable[[int], str]:
    if usage.component == _GPU:
        return _gpus(finder, missing, usage, first_ms)
    return _compute(usage) if usage.component == _COMPUTE else _traffic(usage)


def _gpus(
    finder: MissingPriceFinder, missing: MissingPrice, usage: UnpricedUsage, first_ms: int
) -> Callable[[int], str]:
    """Return what says the type of GPU and the nearest price, by how long names may be."""
    nearest, gpu_type = finder.nearest(usage, first_ms), usage.context[GPU_TYPE] or ""
    values = dict(zip(MATCH_FIELDS, usage.context, strict=True))

    def said(at_most: int) -> str:
        what = short(gpu_type, at_most) if gpu_type else "GPUs whose events name no gpu_type"
        if nearest is None:
            return f"{what}, nor any other GPU"
        sku = short(nearest.event.sku, at_most)
        if missing.fields == ("names",):
            return f"{what}: those for other names of it, as {sku}, differ"
        if len(nearest.fields) == 1 and not nearest.is_later:
            (name,) = nearest.fields
            wants, has = nearest.event.match[name], values[name] or "none"
            return f"{what}, nearest {sku} is for {name} {short(wants, at_most)} (not {short(has, at_most)})"
        names = (*nearest.fields, *(["time"] if nearest.is_later else []))
        more = ", ..." if len(names) > _FIELDS_SHOWN else ""
        return f"{what}, nearest {sku} differs in {', '.join(names[:_FIELDS_SHOWN])}{more}"

    return said


def _is_energy(usage: UnpricedUsage) -> bool:
    return usage.component == _COMPUTE and usage.context[INSTANCE_TYPE] == WATT


def _compute(usage: UnpricedUsage) -> Callable[[int], str]:
    instance_type, holders = usage.context[INSTANCE_TYPE], "nodes" if usage.of_node else "jobs"

    def said(at_most: int) -> str:
        if _is_energy(usage):
            return f"energy (instance_type {WATT}), 0 if it is free"
        of = short(instance_type, at_most) if instance_type else f"{holders} without GPUs or instance_type"
        return f"compute of {of}, 0 if it is free"

    return said


def _traffic(usage: UnpricedUsage) -> Callable[[int], str]:
    return lambda _: f"{usage.component} traffic in {usage.unit}, 0 if it is free"


def _evidence(jobs: Sequence[str], at_ms: int, command: str) -> str:
    """Return SQL for the jobs and the price fields that they had, with the command that mends it."""
    names = ", ".join(quoted(job_id) for job_id in jobs[:_SHOWN])
    return (
        "SELECT l.job_id AS job_id, l.component AS component, l.unit AS unit, l.cloud AS cloud, l.region AS region,"
        " l.cluster AS cluster, l.instance_type AS instance_type, l.gpu_type AS gpu_type, l.purchase AS purchase,"
        f" l.path AS path, l.op AS op, sum(l.quantity) AS quantity, {quoted(command)} AS mend"
        f" FROM ledger AS l WHERE l.job_id IN ({names}) AND l.component IN ('gpu', 'compute', 'network', 'storage') AND l.sku = ''"
        f" AND l.minute >= toDateTime({(at_ms - WINDOW_MS) // 1000:d}, 'UTC') GROUP BY ALL ORDER BY job_id, component, unit"
    )


def _evidence_of_nodes(nodes: Sequence[str], at_ms: int, command: str) -> str:
    """Return SQL for the nodes and the price fields that they had last, with the command that mends it."""
    names = ", ".join(quoted(node) for node in nodes[:_SHOWN])
    since = f"toDateTime({(at_ms - WINDOW_MS) // 1000:d}, 'UTC')"
    fields = ("cloud", "region", "cluster", "instance_type", "gpu_type", "purchase")
    last = ", ".join(f"argMax({name}, hour) AS {name}" for name in fields)
    return (
        f"SELECT n.node AS node, n.unit AS unit, {', '.join(f'h.{name} AS {name}' for name in fields)},"
        f" sum(n.quantity) AS quantity, {quoted(command)} AS mend FROM node_minutes AS n FINAL"
        f" INNER JOIN (SELECT node, {last} FROM node_hours FINAL WHERE node IN ({names}) AND hour >= toStartOfHour({since}) GROUP BY node) AS h"
        f" ON h.node = n.node WHERE n.node IN ({names}) AND n.sku = '' AND n.quantity > 0 AND n.minute >= {since} GROUP BY ALL ORDER BY node, unit"
    )


def counts(thresholds: Mapping[str, float], component: str) -> bool:
    """Whether what has no price of a component counts."""
    return component == _GPU or bool(thresholds[_COMPUTE if component == _COMPUTE else "traffic"])


def margins(of: Mapping[str, float], holders: int, component: str) -> list[Margin]:
    """Return how far so many jobs and nodes without a price are from an alert."""
    held = float(holders) if counts(of, component) else None
    return [from_threshold_on("jobs and nodes of 24 h that lack the price", held, 1)]


RULE: Final = LedgerRule(
    name="missing_price",
    title="Price missing",
    severity=TICKET,
    about="`gpu_type`, `instance_type`, `traffic`",
    holds=(
        "GPU-time, compute or traffic of jobs, or time of nodes that no job used, of the last 24 h has no "
        "price known or in force then. One alert for each missing price"
    ),
    runbook="runbook.md#unpriced-gpu-time",
    thresholds={
        "traffic": Threshold(1, 0, 1, "1: traffic without a price counts; 0: it does not", True),
        "compute": Threshold(
            1, 0, 1, "1: instances, CPUs and memory without GPUs, and energy, count; 0: they do not", True
        ),
    },
    each="missing price",
    operator="prices",
    finding=finding,
    margins=margins,
)
