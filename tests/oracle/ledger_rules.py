"""The rules across jobs by the hour, judged the plain way: from what each hour cost, in integers, one hour at a time.

Must import nothing of the project. `end_ms` is the end of the judged hour; money is in nano-dollars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model import HOUR_MS, MINUTE_MS, Json

WEEK_HOURS = 168
SUBJECT_FIELDS = ("experiment", "project", "team", "owner")  # the narrowest first


class JobHour(NamedTuple):
    job_id: str
    hour_ms: int
    cost_nano: int
    cluster: str = ""
    held_milli_ms: int = 0
    sampled_ms: int = 0
    wall_ms: int = 0
    starting_ms: int = 0
    gpu_nano: int = 0


class NodeHour(NamedTuple):
    node: str
    hour_ms: int
    cluster: str
    instance_type: str
    team: str
    paid_ms: int
    gpu_milli_ms: int
    cost_nano: int
    gpu_type: str = ""


class Revision(NamedTuple):
    sku: str
    per: str
    price_nano: int
    effective_ms: int
    time_ms: int


class JobUse(NamedTuple):
    """What the GPUs of jobs on one node cost in an hour."""

    node: str
    hour_ms: int
    cost_nano: int
    gpu_milli_ms: int = 0


class Subject(NamedTuple):
    kind: str
    name: str


class Held(NamedTuple):
    """A rule holds for a subject in an hour; `of_nano` is what `nano` is a part of, or compared with."""

    subject: Subject
    nano: int = 0
    of_nano: int = 0
    nodes: int = 0
    cluster: str = ""
    unsampled: Fraction = Fraction(0)  # share of what the job held
    others: Fraction = Fraction(0)  # sampled share of what the other jobs of the cluster held


@dataclass
class Costs:
    """What the rules look at; jobs by id with `owner`, `team`, `project` and `experiment`."""

    jobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hours: Sequence[JobHour] = ()
    nodes: Sequence[NodeHour] = ()
    uses: Sequence[JobUse] = ()
    revisions: Sequence[Revision] = ()
    #: GPU-time in which a job was suspended, by job and hour.
    suspended: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: Productive ms of GPUs without a job, by node and hour.
    strays: Mapping[tuple[str, int], int] = field(default_factory=dict)


def exact(number: float) -> Fraction:
    """A threshold as it is written."""
    return Fraction(str(number))


def team_burn(costs: Costs, end_ms: int, rule: Json) -> list[Held]:
    """ "cost more in the hour than `usd_per_hour`, or than `share_ratio` of what all jobs cost"; 0: not looked at."""
    match = {name: rule[name] for name in SUBJECT_FIELDS if rule.get(name) is not None}
    inside = [hour for hour in costs.hours if hour.hour_ms == end_ms - HOUR_MS]
    fleet = sum(hour.cost_nano for hour in inside)
    spent = sum(
        hour.cost_nano
        for hour in inside
        if all(costs.jobs.get(hour.job_id, {}).get(name, "") == value for name, value in match.items())
    )
    thresholds = rule.get("thresholds") or {}
    usd, share = exact(thresholds.get("usd_per_hour", 0)), exact(thresholds.get("share_ratio", 0))
    if not ((usd and spent > usd * 10**9) or (share and spent > share * fleet)):
        return []
    kind = next((name for name in SUBJECT_FIELDS if name in match), "fleet")
    return [Held(Subject(kind, match.get(kind, "")), spent, fleet)]


def unallocated(costs: Costs, end_ms: int, thresholds: Mapping[str, float]) -> list[Held]:
    """ "jobs used less than 95 % of what GPU nodes cost, and $1 or more was idle" """
    spent = idle = 0
    if _comes_up(costs, end_ms):
        return []
    for node in _gpu_nodes(costs, end_ms):
        used = sum(
            use.cost_nano for use in costs.uses if (use.node, use.hour_ms) == (node.node, node.hour_ms)
        )
        spent += node.cost_nano
        # "what works for no job on it is told of by `forgotten_node`"
        stray = _stray_nano(costs, node)
        if stray is None or stray < thresholds.get("named_stray_nano", 2 * 10**9):
            idle += max(node.cost_nano - used, 0)
    most = exact(thresholds.get("idle_ratio", 0.05)) * spent
    holds = idle > most and idle >= exact(thresholds.get("least_usd", 1)) * 10**9
    return [Held(Subject("fleet", "nodes"), idle, spent)] if holds else []


def _comes_up(costs: Costs, end_ms: int) -> bool:
    """ "not in the first hour that any node was paid in" """
    return all(node.hour_ms >= end_ms - HOUR_MS for node in costs.nodes if node.paid_ms)


def owner_coverage(costs: Costs, end_ms: int, thresholds: Mapping[str, float]) -> list[Held]:
    """ "less than 95 % of what jobs cost has an owner, from $1 on" """
    inside = [hour for hour in costs.hours if hour.hour_ms == end_ms - HOUR_MS]
    spent = sum(hour.cost_nano for hour in inside)
    owned = sum(hour.cost_nano for hour in inside if costs.jobs.get(hour.job_id, {}).get("owner"))
    least = exact(thresholds.get("least_usd", 1)) * 10**9
    holds = spent >= least and owned < exact(thresholds.get("owned_ratio", 0.95)) * spent
    return [Held(Subject("fleet", "owners"), spent - owned, spent)] if holds else []


def forgotten_node(costs: Costs, end_ms: int, thresholds: Mapping[str, float]) -> list[Held]:
    """ "Paid GPU nodes had no job for 6 h": paid in each of these hours, and no job in any of them.

    "Or GPUs of one that a job held in the last 24 h worked for no job, worth $2 in the hour".
    """
    least = thresholds.get("stray_nano", exact(thresholds.get("stray_usd", 2)) * 10**9)
    hours = [end_ms - HOUR_MS * back for back in range(1, int(thresholds.get("hours", 6)) + 1)]
    groups: dict[str, list[int]] = {}
    for node in _gpu_nodes(costs, end_ms):
        paid = {other.hour_ms for other in costs.nodes if other.node == node.node and other.gpu_milli_ms > 0}
        used = {use.hour_ms for use in costs.uses if use.node == node.node}
        stray = _stray_nano(costs, node)
        works_on = stray is not None and stray >= least
        if works_on or all(hour in paid and hour not in used for hour in hours):
            group = f"{node.cluster}/{node.instance_type or node.gpu_type}"
            groups.setdefault(group, []).append(node.cost_nano)
    return [
        Held(Subject("node_group", group), sum(nano), nodes=len(nano))
        for group, nano in sorted(groups.items())
    ]


def _stray_nano(costs: Costs, node: NodeHour) -> int | None:
    """What GPUs of the node that worked for no job cost in the hour; None: none did, or no job had held it in the last 24 h."""
    uses = [use for use in costs.uses if use.node == node.node]
    free = node.gpu_milli_ms - sum(use.gpu_milli_ms for use in uses if use.hour_ms == node.hour_ms)
    stray = max(min(costs.strays.get((node.node, node.hour_ms), 0), free // 1000), 0)
    was_held = any(node.hour_ms - 24 * HOUR_MS <= use.hour_ms <= node.hour_ms for use in uses)
    return node.cost_nano * stray * 1000 // node.gpu_milli_ms if was_held and stray else None


def provisioning_burst(costs: Costs, end_ms: int, _: Mapping[str, float]) -> list[Held]:
    """ "10 or more new nodes of a type in a cluster, beyond as many as went in the hour or the one before, and ten times the usual".

    The usual: the mean of the hours of the week before.
    """
    hour_ms = end_ms - HOUR_MS
    found: list[Held] = []
    if _comes_up(costs, end_ms):
        return found
    kinds = {(node.cluster, node.instance_type) for node in costs.nodes if node.hour_ms == hour_ms}
    for cluster, instance_type in sorted(kinds):
        begun = [
            node.hour_ms
            for node in costs.nodes
            if (node.cluster, node.instance_type) == (cluster, instance_type) and _is_new(costs, node)
        ]
        new = begun.count(hour_ms)
        before = sum(hour_ms - WEEK_HOURS * HOUR_MS <= each < hour_ms for each in begun)
        gone = sum(
            1
            for node in costs.nodes
            if (node.cluster, node.instance_type) == (cluster, instance_type) and _goes(costs, node, hour_ms)
        )
        if new >= 10 + gone and new * WEEK_HOURS >= 10 * before:
            found.append(Held(Subject("fleet", f"{cluster}/{instance_type}"), nodes=new, of_nano=before))
    return found


def _goes(costs: Costs, node: NodeHour, hour_ms: int) -> bool:
    """Whether the node's row shows that it ceased to be paid in this hour, after one that was paid, or in the one before."""
    paid = {
        other.hour_ms: other.paid_ms for other in costs.nodes if other.node == node.node and other.paid_ms
    }
    if node.hour_ms == hour_ms:
        return hour_ms - HOUR_MS in paid and 0 < node.paid_ms < HOUR_MS
    return node.hour_ms == hour_ms - HOUR_MS and node.paid_ms > 0 and hour_ms not in paid


def unsampled_gpus(costs: Costs, end_ms: int, thresholds: Mapping[str, float]) -> list[Held]:
    """Half of what it held in the hour has no samples and was not suspended, though 80 % of what the cluster's other jobs held has.

    It ran the whole hour and did not start in it; the others held a GPU-hour or more.
    """
    least = exact(thresholds.get("unsampled_ratio", 0.5))
    most = exact(thresholds.get("cluster_ratio", 0.8))
    inside = [hour for hour in costs.hours if hour.hour_ms == end_ms - HOUR_MS and hour.held_milli_ms]
    found = []
    for job_id, cluster in sorted({(hour.job_id, hour.cluster) for hour in inside}):
        of_cluster = [hour for hour in inside if hour.cluster == cluster]
        own = [hour for hour in of_cluster if hour.job_id == job_id]
        held, sampled = _held(own)
        by_other = [
            _held([hour for hour in of_cluster if hour.job_id == name])
            for name in {hour.job_id for hour in of_cluster} - {job_id}
        ]
        others = sum(each for each, _ in by_other)
        whole = sum(hour.wall_ms for hour in own) >= HOUR_MS and not any(hour.starting_ms for hour in own)
        if not whole or others < 1000 * HOUR_MS:
            continue
        suspended = costs.suspended.get((job_id, end_ms - HOUR_MS), 0)
        unsampled = Fraction(max(held - sampled - suspended, 0), held)
        coverage = Fraction(sum(each for _, each in by_other), others)
        if unsampled >= least and coverage >= most:
            cost = sum(hour.gpu_nano for hour in own)
            found.append(Held(Subject("job", job_id), cost, held, 0, cluster, unsampled, coverage))
    return found


def _held(hours: Sequence[JobHour]) -> tuple[int, int]:
    """What a job held, and what of it was sampled, at most all; in thousandths of a GPU times ms."""
    held = sum(hour.held_milli_ms for hour in hours)
    return held, min(1000 * sum(hour.sampled_ms for hour in hours), held)


BY_HOUR: Mapping[str, Callable[[Costs, int, Mapping[str, float]], list[Held]]] = {
    "unallocated": unallocated,
    "owner_coverage": owner_coverage,
    "forgotten_node": forgotten_node,
    "provisioning_burst": provisioning_burst,
    "unsampled_gpus": unsampled_gpus,
}


def holding(costs: Costs, end_ms: int, records: Iterable[Json]) -> set[tuple[str, Subject]]:
    """The rules that hold in the hour before `end_ms`, by the records of kind `rule` that are in force then."""
    wanted = sorted(records, key=lambda record: str(record["name"]), reverse=True)
    found = {
        ("team_burn", held.subject)
        for record in wanted
        if record.get("rule", record["name"]) == "team_burn" and record.get("enabled") is not False
        for held in team_burn(costs, end_ms, record)
    }
    for rule, judge in BY_HOUR.items():
        enabled, thresholds = _settings(rule, wanted)
        if rule == "unallocated":
            is_told, of_strays = _settings("forgotten_node", wanted)
            least = exact(of_strays.get("stray_usd", 2)) * 10**9
            thresholds["named_stray_nano"] = float(least) if is_told else float("inf")
        if enabled:
            found |= {(rule, held.subject) for held in judge(costs, end_ms, thresholds)}
    return found


def _settings(rule: str, records: Iterable[Json]) -> tuple[bool, dict[str, float]]:
    """Whether a rule is on, and its thresholds; of several records the last one wins."""
    enabled, thresholds = True, dict[str, float]()
    for record in records:
        if record.get("rule", record["name"]) == rule:
            enabled = enabled if record.get("enabled") is None else bool(record["enabled"])
            thresholds |= record.get("thresholds") or {}
    return enabled, thresholds


class Episode(NamedTuple):
    rule: str
    kind: str
    name: str
    started_ms: int
    resolved_ms: int | None


def episodes(held: Mapping[int, set[tuple[str, Subject]]]) -> list[Episode]:
    """ "An alert fires while its rule holds, one episode for hours in a row"; `held`: by the end of each hour."""
    firing: dict[tuple[str, Subject], int] = {}
    found: list[Episode] = []
    for end_ms, now in sorted(held.items()):
        for rule, subject in sorted(firing.keys() - now):
            found.append(Episode(rule, *subject, firing.pop((rule, subject)), end_ms))
        firing |= dict.fromkeys(now - firing.keys(), end_ms)
    return sorted(
        [*found, *(Episode(rule, *subject, at_ms, None) for (rule, subject), at_ms in firing.items())],
        key=str,
    )


def price_jumps(
    revisions: Sequence[Revision], first_ms: int, until_ms: int, records: Sequence[tuple[int, Json]] = ()
) -> list[Episode]:
    """ "a revision is more than three times the one before, or less than a third; for an hour": no job pays any of them.

    By what was known at the end of the minute in which it was known and in force: of several of one effective time the last one
    said; of several of a SKU in one minute the last one. `time_ms`: when it was said. `records`: with the instants at which they
    came; one that came at the end of the minute judges it as well as those before.
    """
    found: dict[tuple[str, int], tuple[int, int, Revision, Revision, Revision | None]] = {}
    for after in revisions:
        at_ms = max(after.time_ms, after.effective_ms)
        end_ms = at_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS
        said = sorted((each for each in revisions if each.time_ms < end_ms), key=lambda each: each.time_ms)
        known = {each.effective_ms: each for each in said if each.sku == after.sku}
        earlier = [effective_ms for effective_ms in known if effective_ms < after.effective_ms]
        if first_ms < end_ms <= until_ms and known.get(after.effective_ms) == after:
            place = after.sku, end_ms
            before = known[max(earlier)] if earlier else after
            oldest = known[sorted(earlier)[-2]] if len(earlier) > 1 else None
            now = at_ms, after.effective_ms, after, before, oldest
            found[place] = max(found.get(place, (-1, 0, after, after, None)), now, key=lambda each: each[:2])
    return sorted(
        (
            Episode(
                "price_jump", "sku", sku, end_ms, end_ms + HOUR_MS if end_ms + HOUR_MS <= until_ms else None
            )
            for (sku, end_ms), (_, _, after, before, oldest) in found.items()
            if any(
                _jumps(after, before, oldest, [each for came_ms, each in records if came_ms < last_ms])
                for last_ms in (end_ms, end_ms + 1)
            )
        ),
        key=str,
    )


def _jumps(after: Revision, before: Revision, oldest: Revision | None, records: Iterable[Json]) -> bool:
    enabled, factor = True, Fraction(3)
    for record in sorted(records, key=lambda record: str(record["name"]), reverse=True):
        if record.get("rule", record["name"]) == "price_jump":
            enabled = enabled if record.get("enabled") is None else bool(record["enabled"])
            factor = exact((record.get("thresholds") or {}).get("factor", factor))
    if not enabled or not before.price_nano:
        return False
    if oldest is not None and oldest.price_nano and after.effective_ms - before.effective_ms <= 24 * HOUR_MS:
        # "One that puts back what another one did within a day is none."
        went = Fraction(before.price_nano, oldest.price_nano)
        is_back = (
            5 * after.price_nano <= 6 * oldest.price_nano and 5 * oldest.price_nano <= 6 * after.price_nano
        )
        if is_back and (went > factor or went < 1 / factor):
            return False
    ratio = Fraction(after.price_nano, before.price_nano)
    return ratio > factor or ratio < 1 / factor


def _gpu_nodes(costs: Costs, end_ms: int) -> list[NodeHour]:
    return [node for node in costs.nodes if node.hour_ms == end_ms - HOUR_MS and node.gpu_milli_ms > 0]


def _is_new(costs: Costs, node: NodeHour) -> bool:
    """Whether it began to be paid in this hour: in none before, or not in the one right before."""
    earlier = (other for other in costs.nodes if other.node == node.node and other.hour_ms < node.hour_ms)
    paid = [other.hour_ms for other in earlier if other.paid_ms]
    return node.paid_ms > 0 and max(paid, default=-HOUR_MS) < node.hour_ms - HOUR_MS
