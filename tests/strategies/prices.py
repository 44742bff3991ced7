"""Price books: several SKUs per component and kind, revisions that change in the middle of a minute.

Must only produce records that the contract accepts.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from tests.oracle.model import Json, Line
from tests.strategies.values import BASE_MS, FIELD_VALUES, PROJECTS, TEAMS, Ids, instants, line, usually_first

# Which `per` a component's prices may have; "instance_hour+" is the one with `gpus`.
KINDS = (
    ("gpu", "gpu_hour"), ("gpu", "instance_hour+"),
    ("compute", "instance_hour"), ("compute", "vcpu_hour"), ("compute", "memory_gib_hour"), ("compute", "job_hour"),
    ("license", "gpu_hour"), ("license", "instance_hour+"), ("license", "job_hour"),
    ("labor", "gpu_hour"), ("labor", "job_hour"),
    ("overhead", "gpu_hour"), ("overhead", "instance_hour+"), ("overhead", "job_hour"),
    ("compliance", "gpu_hour"), ("compliance", "instance_hour+"), ("compliance", "job_hour"),
    ("network", "gib"), ("network", "gb"),
    ("storage", "gib"), ("storage", "gb"), ("storage", "thousand_requests"), ("storage", "gib_month"),
)  # fmt: skip
# Narrower prices beside those for everybody: they tie in their number of match fields.
RIVALS: tuple[tuple[tuple[str, str], dict[str, str]], ...] = (
    (("gpu", "gpu_hour"), {"zone": "z1"}), (("gpu", "gpu_hour"), {"gpu_type": "H100"}),
    (("gpu", "gpu_hour"), {"gpu_type": "A100"}), (("gpu", "instance_hour+"), {"region": "eu"}),
    (("gpu", "gpu_hour"), {"project": "llm"}), (("gpu", "gpu_hour"), {"team": "red"}),
    (("license", "gpu_hour"), {"purchase": "spot"}), (("license", "gpu_hour"), {"cloud": "aws"}),
    (("network", "gib"), {"direction": "egress"}), (("network", "gb"), {"path": "unclassified"}),
    (("storage", "gib"), {"op": "read"}), (("storage", "thousand_requests"), {"storage_class": "standard"}),
)  # fmt: skip
# GPU prices are drawn as often as all others together: everything else follows GPU-time.
kinds = st.one_of(st.sampled_from(KINDS[:2]), st.sampled_from(KINDS))

MATCH_VALUES = FIELD_VALUES | {
    "team": TEAMS,
    "project": PROJECTS,
    "path": ("internet", "unclassified"),
    "direction": ("egress", "ingress"),
    "op": ("read", "list", "stored"),
    "storage_class": ("standard", "cold"),
}
LABELS = ("a=1", "b=2", "c=1")
MATCH_BY_COMPONENT = {
    "network": ("cloud", "region", "team", "project", "path", "direction"),
    "storage": ("cloud", "region", "team", "project", "op", "storage_class"),
}

# Prices at which products end in halves, at the limits, and ordinary ones.
usd_texts = st.one_of(
    st.sampled_from(("4.00", "1.40", "1.8", "98.32", "0", "0.000000001", "99999.999999999", "3.6", "0.023")),
    st.integers(0, 10**11).map(lambda nano: f"{nano // 10**9}.{nano % 10**9:09}"),
)


@cache
def _some_of(names: tuple[str, ...], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=most, unique=True)


@cache
@st.composite
def matches(draw: st.DrawFn, component: str) -> dict[str, str | None]:
    """Match fields of one revision: often none, seldom one that can never match."""
    usual = MATCH_BY_COMPONENT.get(component, (*FIELD_VALUES, "team", "project"))
    names = usual if draw(st.integers(0, 9)) else tuple(MATCH_VALUES)
    # One field mostly, so that SKUs tie in their number.
    chosen = draw(_some_of(names, draw(st.sampled_from((0, 1, 1, 2)))))
    match: dict[str, str | None] = {name: draw(usually_first(MATCH_VALUES[name])) for name in chosen}
    if draw(st.integers(0, 15)) == 0:
        match.setdefault("cluster", None)  # null means any
    return match


@cache
def _effective(base_ms: int) -> st.SearchStrategy[int]:
    return st.one_of(st.just(0), st.just(base_ms), instants(base_ms), st.just(base_ms + 10**10))


@cache
def _told(base_ms: int) -> st.SearchStrategy[int]:
    return st.one_of(st.just(base_ms + 1000), instants(base_ms))


@st.composite
def price_events(
    draw: st.DrawFn, base_ms: int = BASE_MS, ids: Ids | None = None, most: int = 6
) -> list[Json]:
    """Revisions of some SKUs; a record may come later, in time and in the log, than the usage it prices."""
    ids = ids or Ids("p")
    effective, told = _effective(base_ms), _told(base_ms)
    # One book in three prices every kind there is for whomever nothing narrower matches.
    wide: list[tuple[tuple[str, str], dict[str, str]]] = []
    if draw(st.integers(0, 2)) == 0:
        wide = [(kind, {}) for kind in KINDS] + list(RIVALS)
    narrow = [None] * draw(st.integers(0, most))
    events: list[Json] = []
    for number, fixed in enumerate([*narrow, *wide]):
        kind = fixed[0] if fixed else draw(kinds)
        match: dict[str, str | None] = {**fixed[1]} if fixed else draw(matches(kind[0]))
        for revision_number in range(1 if fixed else draw(st.integers(1, 3))):
            if revision_number and draw(st.integers(0, 3)) == 0:  # a revision may be of another kind
                kind = draw(kinds)
            if revision_number and draw(st.integers(0, 3)) == 0:
                match = draw(matches(kind[0]))
            component, per = kind
            match.pop("label", None)
            if component == "compliance":
                match["label"] = draw(usually_first(LABELS))
            event: Json = {
                "sku": f"s{number}",
                "component": component,
                "usd": draw(usd_texts),
                "per": per.rstrip("+"),
                "effective_ms": 0 if revision_number == 0 and draw(st.booleans()) else draw(effective),
                "time_ms": draw(told),
            }
            if per.endswith("+"):
                event["gpus"] = draw(st.sampled_from((1, 2, 3, 7, 8)))
            events.append(event | match | ids.next())
    return events


def price_lines(
    base_ms: int = BASE_MS, ids: Ids | None = None, most: int = 6
) -> st.SearchStrategy[list[Line]]:
    """The same as log lines."""
    return price_events(base_ms, ids, most).map(lambda events: [line("prices", e) for e in events])
