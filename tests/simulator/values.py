"""Events of a run, drawn from a plain generator: small fleets in which much meets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from tests.oracle.model import ENDS, FUTURE_MS, MINUTE_MS, Json

NODES = ("n1", "n2", "n3")
GPUS = ("0", "1", "2")
FIELDS = {"cloud": ("aws", "gcp"), "region": ("eu", "us"), "zone": ("z1", "z2"), "gpu_type": ("H100", "A100")}
RATIOS = (0, 1, 0.5, 0.0005, 0.0015, 0.57, 0.9995)
INTERVALS_MS = (1, 1000, 1001, 5000, 15_000, 61_500, 300_000)
COUNTS = (0, 0.3, 1, 1.5, 2, 8)
STEPS = (
    ["checkpointed"], ["heartbeat"], ["scaled"], ["updated"], ["suspended"], ["suspended", "resumed"], ["started"],
)  # fmt: skip
KINDS = (
    ("gpu", "gpu_hour"), ("gpu", "gpu_hour"), ("gpu", "instance_hour"), ("compute", "job_hour"),
    ("license", "gpu_hour"), ("overhead", "job_hour"), ("network", "gib"), ("storage", "gb"),
    ("storage", "thousand_requests"), ("storage", "gib_month"),
)  # fmt: skip
USD = ("4.00", "1.8", "98.32", "0", "0.000000001", "3.6", "60", "900.000000001")


def _requested(time_ms: int) -> Json:
    """How many GPUs an event says are requested, if it does; the draws of a seed stay as they are."""
    apart = random.Random(f"requested {time_ms}")
    return {"gpus_requested": apart.choice((1, 2, 4, 8))} if apart.random() < 0.2 else {}


class Fleet:
    """Draws the events of a time: `[base_ms - 40 min, base_ms + span_ms]`."""

    def __init__(self, rng: random.Random, base_ms: int, span_ms: int, ids: Iterator[int]) -> None:
        self.rng = rng
        self.base_ms = base_ms
        self.span_ms = span_ms
        self.ids = ids

    def time_ms(self) -> int:
        """An instant; minutes' edges and whole seconds are frequent."""
        rng = self.rng
        low_ms = -40 * MINUTE_MS if rng.random() < 0.6 else 0
        at_ms = self.base_ms + rng.randrange(low_ms, self.span_ms)
        way = rng.randrange(4)
        if way == 0:
            return at_ms // MINUTE_MS * MINUTE_MS + rng.choice((-1, 0, 1))
        return at_ms // 1000 * 1000 if way == 1 else at_ms

    def identity(self) -> Json:
        number = next(self.ids)
        return {"source": ("k8s", "slurm")[number % 2], "id": f"{number // 2}"}

    def fields(self) -> Json:
        rng = self.rng
        names = rng.sample(tuple(FIELDS), rng.randrange(3))
        return {name: FIELDS[name][rng.random() < 0.25] for name in names}

    def gpus(self) -> Json:
        rng = self.rng
        if rng.random() < 0.5:
            return {"gpu_count": rng.choice(COUNTS)}
        return {"nodes": {node: rng.choice(COUNTS) for node in rng.sample(NODES, rng.randrange(1, 3))}}

    def job(self, job_id: str, attempts: tuple[int, ...], *, closed: bool) -> Iterator[Json]:
        """Lifecycle events of some attempts, mostly in an order that happens."""
        rng = self.rng
        for number in attempts:
            types = rng.choice(([], ["queued"], ["allocated"], ["queued", "allocated"]))
            types = [*types, *rng.choice((["started"], ["started"], ["resumed"], []))]
            for _ in range(rng.randrange(4)):
                types = [*types, *rng.choice(STEPS)]
            if closed or rng.random() < 0.5:
                types = [*types, rng.choice(ENDS)]
            times_ms = [self.time_ms() for _ in types]
            if rng.random() < 0.8:
                times_ms.sort()
            for place, (kind, time_ms) in enumerate(zip(types, times_ms, strict=True)):
                event = {"job_id": job_id, "attempt": number, "type": kind, "time_ms": time_ms}
                event |= self.identity()
                if place == 0 or kind == "scaled" or rng.random() < 0.2:
                    event |= self.gpus() | self.fields()
                if rng.random() < 0.3:
                    event |= {rng.choice(("owner", "team", "project")): rng.choice(("red", "blue"))}
                if rng.random() < 0.25:
                    event |= {"expected_usd_per_hour": rng.choice(("0.5", "2.25", 40))}
                if rng.random() < 0.1:
                    event |= {"labels": {"a": rng.choice("12")}, "cpu_count": 4, "instance_count": 1}
                if rng.random() < 0.1:
                    event |= {rng.choice(("quality", "progress")): {rng.choice("ab"): rng.choice((1, -0.5))}}
                event |= _requested(time_ms)
                if kind == "suspended" and rng.random() < 0.5:
                    event |= {"holds_gpus": True}
                yield event

    def sample(self, job_id: str, attempt: int) -> Json:
        rng = self.rng
        gpus = rng.sample(GPUS, rng.randrange(1, 3))
        event: Json = {
            "node": rng.choice(NODES), "source": rng.choice(("dcgm", "k8s")), "time_ms": self.time_ms(),
            "interval_ms": rng.choice(INTERVALS_MS), "gpus": gpus, "util_ratio": [rng.choice(RATIOS) for _ in gpus],
        }  # fmt: skip
        if len(gpus) == 2:  # nothing drawn: known logs stay as they are but for this
            event["tensor_ratio"] = event["util_ratio"][::-1]
        if rng.random() < 0.92:
            event |= {"job_id": job_id, "attempt": attempt}
        return event | (self.fields() if rng.random() < 0.4 else {})

    def traffic(self, job_id: str, attempt: int) -> tuple[str, Json]:
        rng = self.rng
        event: Json = {"job_id": job_id, "attempt": attempt, "time_ms": self.time_ms()} | self.identity()
        event |= {"interval_ms": rng.choice((0, 999, 60_000, 90_001, 600_000))}
        amount = rng.choice((1, 7, 10**9, 2**33, rng.randrange(10**7)))
        if rng.random() < 0.5:
            return "network", event | {"bytes": amount, "path": rng.choice(("internet", "cross_zone"))}
        op = rng.choice(("read", "write", "list", "stored"))
        what = {"requests": amount} if op == "list" else {"bytes": amount}
        return "storage", event | {"op": op} | what

    def node(self, name: str, *, closed: bool) -> Iterator[Json]:
        """Events of a node."""
        rng = self.rng
        for kind in rng.choice(
            (["provisioned"], ["provisioned", "terminated"], ["ready", "terminated", "ready"])
        ):
            event = {"node": name, "type": kind, "time_ms": self.time_ms()} | self.identity() | self.fields()
            yield event | ({"gpu_count": rng.choice(COUNTS)} if rng.random() < 0.7 else {})
        if closed:
            end_ms = self.base_ms + self.span_ms
            yield {"node": name, "type": "terminated", "time_ms": end_ms} | self.identity()

    def price(self, number: int) -> Json:
        """A revision; one that becomes effective long before is a price that comes late."""
        rng = self.rng
        component, per = KINDS[number % len(KINDS)]
        effective_ms = rng.choice((0, 0, self.base_ms - 30 * MINUTE_MS, self.time_ms(), self.time_ms()))
        event: Json = {
            "sku": f"s{number}", "component": component, "per": per, "usd": rng.choice(USD),
            "effective_ms": effective_ms, "time_ms": self.time_ms(),
        } | self.identity()  # fmt: skip
        if per == "instance_hour":
            event["gpus"] = rng.choice((1, 3, 8))
        if component in ("gpu", "license") and rng.random() < 0.4:
            event |= rng.choice(({"gpu_type": "H100"}, {"region": "eu"}, {"team": "red"}, {"zone": "z1"}))
        return event

    def retries(self, job_id: str) -> Iterator[Json]:
        """Attempts that break off one after another, with another purchase now and then."""
        rng = self.rng
        at_ms = self.base_ms + rng.randrange(-40 * MINUTE_MS, 0)
        for attempt in range(1, rng.randrange(3, 6)):
            purchase = rng.choice(("spot", "on_demand"))
            common: Json = {"job_id": job_id, "attempt": attempt}
            yield (
                common
                | {"type": "started", "time_ms": at_ms, "purchase": purchase, "gpu_count": 8}
                | self.identity()
            )
            if rng.random() < 0.3:
                deadline_ms = self.base_ms + rng.randrange(self.span_ms)
                yield (
                    common
                    | {"type": "updated", "time_ms": at_ms, "deadline_ms": deadline_ms}
                    | self.identity()
                )
            at_ms += rng.choice((1, 10_000, 5 * MINUTE_MS, 14 * MINUTE_MS))
            if rng.random() < 0.8 and at_ms < self.base_ms + self.span_ms:
                end = {
                    "type": rng.choice(("failed", "failed", "preempted", "completed")),
                    "reason": "out_of_memory",
                }
                yield common | end | {"time_ms": at_ms} | self.identity()

    def rule(self) -> Json:
        """Settings under which rules hold soon, or not at all."""
        rng = self.rng
        said: Json = rng.choice((
            {"rule": "retry_loop", "thresholds": {"failures": 2, "preemptions": 2}},
            {"rule": "traffic", "thresholds": {"usd_per_hour": 0.01, "ratio": 0.01, "page_usd_per_hour": 0.02}},
            {"rule": "runaway_length", "thresholds": {"hours": 0.2}},
            {"rule": "ceiling", "thresholds": {"usd_per_hour": 5}},
            {"rule": "no_checkpoint", "thresholds": {"hours": 0.1, "least_usd": 0.5}},
            {"rule": "held", "thresholds": {"minutes": 1, "least_usd_per_hour": 0}},
            {"rule": "stalled", "thresholds": {"minutes": 1, "usual_times": 1, "least_usd": 0}},
            {"rule": "silent_job", "thresholds": {"minutes": 2, "never_heard_minutes": 3}},
            {"rule": "burn_fast", "thresholds": {"long_ratio": 1.1, "short_ratio": 1.1, "extra_usd": 0.01}},
            {"rule": "idle_gpus", "thresholds": {"productive_ratio": 1.0, "minutes": 10, "least_usd": 0}},
            {"rule": "unpriced", "enabled": False},
            {"rule": "price_basis", "enabled": False, "match": {"team": "red"}},
        ))  # fmt: skip
        return {"kind": "rule", "name": rng.choice("xyz"), "time_ms": self.time_ms()} | self.identity() | said

    def silence(self) -> Json:
        rng = self.rng
        from_ms = self.time_ms()
        return {
            "kind": "silence", "name": rng.choice("xy"), "from_ms": from_ms, "until_ms": from_ms + 400_000,
            "rule": rng.choice(("unpriced", "burn_fast")), "time_ms": self.time_ms(),
        } | self.identity()  # fmt: skip


def poison(rng: random.Random, topic: str, time_ms: int) -> bytes | None:
    """A record that decoding must refuse."""
    base = f'"source": "p", "id": "1", "time_ms": {time_ms}'
    made: tuple[bytes | None, ...] = (
        b"{", b"[]", b"null", b"\xff\xfe", b"", b'{"time_ms": "soon"}', f"{{{base}}}".encode(), None,
        f'{{{base}, "job_id": "j0", "attempt": 0, "type": "started", "node": "n1"}}'.encode(),
        f'{{{base}, "job_id": "j0", "type": "exploded", "node": "n1", "op": "read"}}'.encode(),
        f'{{{base}, "job_id": "j0", "type": "started", "gpu_count": NaN}}'.encode(),
    )  # fmt: skip
    if rng.random() < 0.01:
        return b'{"source": "' + b"x" * (2**20 + 1) + b'"}'
    return rng.choice([value for value in made if value is not None or topic != "controls"])


def is_future(event: Json, append_ms: int) -> bool:
    """By the contract: "`time_ms` more than 5 min later than its append time"."""
    return bool(event["time_ms"] > append_ms + FUTURE_MS)


def numbers(first: int = 0) -> Iterator[int]:
    """Identities that are unique in a run."""
    return count(first)
