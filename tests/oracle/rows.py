"""Ledger rows of one job: lifecycle time, samples of metered attempts, and traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tests.oracle.held import Held, fields_of
from tests.oracle.intake import Sample, attempt_of
from tests.oracle.model import (
    FLOW_FIELDS,
    MINUTE_MS,
    NO_FLOW,
    TRAFFIC_FIELDS,
    Context,
    Fields,
    Json,
    LedgerKey,
    LedgerRow,
    UnattributedRow,
    UsageRow,
    context_of,
    cost_nano,
)
from tests.oracle.prices import UNPRICED, PriceBook, Revision
from tests.oracle.timeline import Interval, Segment, overlaps

GPU_TIME_COMPONENTS = ("gpu", "license", "labor", "overhead")
JOB_TIME_COMPONENTS = ("compute", "license", "labor", "overhead")
LABEL = "label."  # before the name of a label in what is known of a job
NEVER_SILENT = ("gpu", "network", "storage")  # without a price these book a row of cost 0 and an empty sku


def payer_of(said: Mapping[str, Any]) -> Context:
    """What prices match of the job as a whole: team, project and labels."""
    labels = {f"{LABEL}{name}": value for name, value in (said.get("labels") or {}).items()}
    return context_of({"team": said.get("team"), "project": said.get("project")}, labels)


def for_labels(context: Context) -> tuple[str, ...]:
    """Of each label of the job "one price of `compliance`", beside the other components of time."""
    return tuple(
        f"compliance {name.removeprefix(LABEL)}={value}" for name, value in context if name.startswith(LABEL)
    )


Part = tuple[int, Fields]  # since when the price fields hold, and these


def minutes(start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """[start, end) cut at minutes, as (minute, start, end)."""
    while start_ms < end_ms:
        minute = start_ms // MINUTE_MS
        until_ms = min((minute + 1) * MINUTE_MS, end_ms)
        yield minute, start_ms, until_ms
        start_ms = until_ms


class Ledger:
    """Sums quantities by row key; the cost is "derived once, from its whole quantity"."""

    def __init__(self, job_id: str, book: PriceBook) -> None:
        self.job_id = job_id
        self.book = book
        self._quantity: Counter[LedgerKey] = Counter()
        self._lost: Counter[LedgerKey] = Counter()
        self._price: dict[LedgerKey, Revision] = {}
        self._parts: dict[LedgerKey, dict[Part, tuple[int, int]]] = {}

    def price(self, component: str, unit: str, context: Context, at_ms: int) -> Revision | None:
        """The price, the unpriced mark, or None where an unpriced quantity books nothing."""
        found = self.book.winner(component, unit, context, at_ms)
        return UNPRICED if found is None and component in NEVER_SILENT else found

    def add(
        self, minute: int, attempt: int, node: str, component: str, phase: str, price: Revision, unit: str,
        quantity: int, lost: int, part: Part, flow: tuple[str, ...] = NO_FLOW,
    ) -> None:  # fmt: skip
        key = LedgerKey(
            minute, self.job_id, attempt, node, component.split(" ")[0], phase, price.sku, price.effective_ms,
            unit, *flow,
        )  # fmt: skip
        self._quantity[key] += quantity
        self._lost[key] += lost
        self._price[key] = price
        so_far = self._parts.setdefault(key, {}).get(part, (0, 0))
        self._parts[key][part] = (so_far[0] + quantity, so_far[1] + lost)

    def parts(self) -> Iterator[tuple[LedgerKey, Fields, LedgerRow]]:
        """Rows cut where the price fields change: "what falls before costs what it would cost alone", the rest is the rest."""
        for key, parts in self._parts.items():
            price = self._price[key]
            before = LedgerRow(0, 0, 0, 0)
            for part in sorted(parts):
                quantity, lost = before.quantity + parts[part][0], before.lost_quantity + parts[part][1]
                until = LedgerRow(
                    quantity,
                    cost_nano(quantity, price.price_nano, price.divisor),
                    lost,
                    cost_nano(lost, price.price_nano, price.divisor),
                )
                yield key, part[1], LedgerRow(*(b - a for a, b in zip(before, until, strict=True)))
                before = until

    def rows(self) -> dict[LedgerKey, LedgerRow]:
        """Priced rows: "the lost quantity is priced and rounded as a row is"; nothing of quantity 0."""
        rows: dict[LedgerKey, LedgerRow] = {}
        for key, quantity in self._quantity.items():
            if quantity:
                price, lost = self._price[key], self._lost[key]
                rows[key] = LedgerRow(
                    quantity,
                    cost_nano(quantity, price.price_nano, price.divisor),
                    lost,
                    cost_nano(lost, price.price_nano, price.divisor),
                )
        return rows


def book_segment(
    ledger: Ledger, attempt: int, segment: Segment, team: Context, lost: list[Interval], fields_at: Held
) -> None:
    """The rows of one stretch of paid time, price step by price step, minute by minute."""
    values, phase = segment.values, segment.phase
    context = context_of(values.fields, dict(team))
    # (node, component, unit, units held: the quantity of one ms)
    held = [
        (node, c, "gpu_milli_ms", gpus)
        for node, gpus in values.places()
        for c in (*GPU_TIME_COMPONENTS, *for_labels(context))
    ]
    # "the rows of other time have no node, and the phase of the time", but instances on nodes without GPUs
    held += [(node, "compute", "instance_milli_ms", count) for node, count in values.instances()]
    held += [("", "compute", "cpu_milli_ms", values.cpu_milli)]
    held += [("", "compute", "memory_gib_milli_ms", values.memory_milli)]
    # The quantity of `job_hour` is "the attempt's paid time, whatever its GPUs".
    held += [("", component, "ms", 1) for component in (*JOB_TIME_COMPONENTS, *for_labels(context))]
    for step_start_ms, step_end_ms in ledger.book.steps(segment.start_ms, segment.end_ms):
        priced = [
            (node, component, unit, per_ms, price)
            for node, component, unit, per_ms in held
            if (price := ledger.price(component, unit, context, step_start_ms)) is not None
        ]
        amounts = [each for each in held if each[1] == "compute" and each[2] != "ms" and each[3]]
        watts = [each for each in amounts if each[2] == "instance_milli_ms"]
        energy = watts if ("instance_type", "watt") in context else []
        bought = {unit for _, component, unit, per_ms, _ in priced if component == "compute" and per_ms}
        if energy:  # "Energy without a price of `compute` per `instance_hour`", also with GPUs
            priced += [(*each, UNPRICED) for each in energy if each[2] not in bought]
        # "Time without GPUs that no price of `compute` applies to": instances, else CPUs, else memory
        elif not values.gpu_milli and not bought:
            priced += [(*each, UNPRICED) for each in amounts if each[2] == amounts[0][2]]
        for minute, start_ms, end_ms in minutes(step_start_ms, step_end_ms):
            lost_ms = sum(b - a for a, b in overlaps(lost, start_ms, end_ms))
            for node, component, unit, per_ms, price in priced:
                ledger.add(
                    minute, attempt, node, component, phase, price, unit,
                    per_ms * (end_ms - start_ms), per_ms * lost_ms, fields_at.at(start_ms),
                )  # fmt: skip


def book_samples(ledger: Ledger, attempt: int, samples: Iterable[Sample], team: Context) -> None:
    """It "pays for its sampled GPU-seconds (phase `metered`, price by the sample's fields)"."""
    covered: dict[tuple[int, str], set[str]] = {}  # (second, node) -> GPUs
    newest: dict[int, Sample] = {}  # minute -> "the newest sample that covers a second of that minute"
    for sample in samples:
        for second in range(sample.first_s, sample.end_s):
            covered.setdefault((second, sample.node), set()).update(sample.permille)
            minute = second // 60
            if minute not in newest or newest[minute].newer() < sample.newer():
                newest[minute] = sample
    contexts = {minute: context_of(sample.fields, dict(team)) for minute, sample in newest.items()}
    for (second, node), gpus in covered.items():
        minute = second // 60
        # Second s is the interval [1000 s, 1000 s + 1000) ms, cut where a price changes inside it.
        for start_ms, end_ms in ledger.book.steps(second * 1000, second * 1000 + 1000):
            # "other components per GPU-time follow, `job_hour` does not"
            for component in (*GPU_TIME_COMPONENTS, *for_labels(contexts[minute])):
                price = ledger.price(component, "gpu_milli_ms", contexts[minute], start_ms)
                if price is not None:
                    quantity = 1000 * len(gpus) * (end_ms - start_ms)
                    ledger.add(
                        minute, attempt, node, component, "metered", price, "gpu_milli_ms", quantity, 0,
                        (0, fields_of(newest[minute].fields)),
                    )  # fmt: skip


def usage(samples: Iterable[Sample]) -> dict[int, UsageRow]:
    """Per minute of one attempt: GPU-seconds covered, and "the sum of their permille"."""
    samples = list(samples)
    tensor = largest_by_minute((sample, sample.tensor) for sample in samples)
    rows: dict[int, UsageRow] = {}
    for minute, (sampled_s, productive) in largest_by_minute(
        (sample, sample.permille) for sample in samples
    ).items():
        tensor_sampled_s, tensor_ms = tensor.get(minute, (0, 0))
        rows[minute] = UsageRow(sampled_s, productive, tensor_ms, tensor_sampled_s)
    return rows


def largest_by_minute(said: Iterable[tuple[Sample, dict[str, int]]]) -> dict[int, tuple[int, int]]:
    """Per minute: GPU-seconds covered, and the sum over them of "the largest permille" of a GPU in a second."""
    spans: dict[tuple[int, str, str], list[tuple[int, int, int]]] = {}
    for sample, by_gpu in said:
        for minute in range(sample.first_s // 60, -(-sample.end_s // 60)):
            first_s, end_s = max(sample.first_s, minute * 60), min(sample.end_s, minute * 60 + 60)
            if first_s < end_s:
                for gpu, permille in by_gpu.items():
                    spans.setdefault((minute, sample.node, gpu), []).append((first_s, end_s, permille))
    found: dict[int, tuple[int, int]] = {}
    for (minute, _, _), mine in spans.items():
        seconds, total = found.get(minute, (0, 0))
        # Nothing begins or ends in the minute but at these seconds.
        for first_s, end_s in pairwise(sorted({second for span in mine for second in span[:2]})):
            covering = [permille for a, b, permille in mine if a <= first_s < b]
            if covering:
                seconds += end_s - first_s
                total += max(covering) * (end_s - first_s)
        found[minute] = seconds, total
    return found


_FLOWS = {
    "network": ("path", "direction", "region", "dst_region"),
    "storage": ("region", "op", "storage_class"),
}


def unattributed(samples: Iterable[Sample]) -> dict[tuple[int, str, str], UnattributedRow]:
    """The same of samples without a job, per minute, node and GPU."""
    by_gpu: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        for gpu, permille in sample.permille.items():
            by_gpu.setdefault((sample.node, gpu), []).append(
                replace(sample, permille={gpu: permille}, tensor={})
            )
    return {
        (minute, node, gpu): UnattributedRow(*row[:2])
        for (node, gpu), mine in by_gpu.items()
        for minute, row in usage(mine).items()
    }


def book_traffic(
    ledger: Ledger, topic: str, event: Json, team: Context, lost: list[Interval], fields_at: Held
) -> None:
    """The rows of one amount: "spread over the minutes of its interval"."""
    own = {f: event.get(f) for f in TRAFFIC_FIELDS}
    if topic == "network":
        own["path"] = own["path"] or "unclassified"
    # "Their `team` and `project` are the job's; the other match fields are the event's alone."
    context = context_of(own, dict(team))
    # "`network` and `storage` rows carry" these, each combination in rows of its own
    named = event | {"path": own["path"]}
    flow = tuple((named.get(name) or "") if name in _FLOWS[topic] else "" for name in FLOW_FIELDS)
    end_ms: int = event["time_ms"]
    interval_ms: int = event["interval_ms"]
    start_ms = end_ms - interval_ms
    for unit, amount in _amounts(topic, event):

        def before(at_ms: int, unit: str = unit, amount: int = amount) -> int:
            """By the contract: "what falls before instant m is floor(amount x (m - start) / interval)"."""
            if unit == "mib_ms":  # "floor(bytes / 2^20) x the overlap in ms"
                return amount * (at_ms - start_ms)
            return amount * (at_ms - start_ms) // interval_ms

        def book(minute: int, at_ms: int, quantity: int, lost_quantity: int, unit: str = unit) -> None:
            price = ledger.price(topic, unit, context, at_ms)
            if price is not None:
                # "Rows of traffic have no node and no phase"
                ledger.add(
                    minute,
                    attempt_of(event),
                    "",
                    topic,
                    "",
                    price,
                    unit,
                    quantity,
                    lost_quantity,
                    fields_at.at(at_ms),
                    flow,
                )

        if interval_ms == 0:  # "an interval of 0 books it all in the minute of time_ms"
            quantity = 0 if unit == "mib_ms" else amount
            is_lost = any(a <= end_ms < b for a, b in lost)
            book(end_ms // MINUTE_MS, end_ms, quantity, quantity if is_lost else 0)
            continue
        for step_start_ms, step_end_ms in ledger.book.steps(start_ms, end_ms):
            for minute, from_ms, until_ms in minutes(step_start_ms, step_end_ms):
                for a_ms, b_ms in fields_at.cut(from_ms, until_ms):
                    lost_quantity = sum(before(d) - before(c) for c, d in overlaps(lost, a_ms, b_ms))
                    book(minute, a_ms, before(b_ms) - before(a_ms), lost_quantity)


def _amounts(topic: str, event: Json) -> list[tuple[str, int]]:
    """What an event books: (unit, amount)."""
    if topic == "network":
        return [("bytes", event["bytes"])]
    if event["op"] == "stored":
        return [("mib_ms", event["bytes"] // 2**20)]
    if event["op"] in ("read", "write"):  # "`read` and `write` book bytes and requests"
        return [(unit, event[unit]) for unit in ("bytes", "requests") if event.get(unit) is not None]
    return [("requests", event["requests"])]
