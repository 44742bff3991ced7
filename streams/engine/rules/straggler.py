"""`straggler`: some of a job's nodes do far less than the others, which wait for them.

What the GPUs of each node did in each five minutes is handed in. Only nodes with the same number of sampled GPUs are compared: a head or a
reader of data is another kind of node. Nodes that never worked as the others may have another part in the job. Where one node works and most
of them stand still, or spin, the alert is about those: the one may be what they wait for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules import spinning
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, short_instant, unheeded
from streams.engine.rules.rule import (
    JOB,
    LEAST_WASTE,
    TICKET,
    LedgerRule,
    Margin,
    Threshold,
    below_threshold,
    flag,
    from_threshold_on,
    page_from,
    severity_of,
)

NAME: Final = "straggler"
SLOT_MS: Final = 5 * MINUTE_MS
#: Samples come so late: a slot is over so long before the instant that judges it.
LAG_MS: Final = 2 * MINUTE_MS
#: What nodes did before is looked at for so many slots.
LOOKBACK_SLOTS: Final = 72
#: Nodes that did less do no work: the others go on without them.
WORKS_RATIO: Final = 0.02
#: Most nodes that do less than this stand still, in words; others are slow.
_STILL_RATIO: Final = 0.2
#: In so many slots a node worked as the others, so it has the same part in the job.
WORKED_SLOTS: Final = 2
#: A job of fewer nodes has none that say which of them is the usual one: one may evaluate while the others wait.
FEW_NODES: Final = 4
#: Of the nodes that never worked as the others at most one in so many is slow, or a single one of `FEW_NODES` or more.
ONE_IN: Final = 8
#: Nodes did as little before, for less than their time by this factor, in halves.
LONGEST_HALVES: Final = 3
#: The figures are those of the last quarter of an hour: in the first slot the nodes worked for a part of it.
FIGURE_SLOTS: Final = 3
_SHOWN: Final = 50


#: What a node that spins does, by the rule about jobs that do.
SPINS: Final = {name: each.default for name, each in spinning.RULE.thresholds.items()}


class NodeUse(NamedTuple):
    """What the GPUs of a node did in a slot: GPU-time in ms, sampled, and of it busy or active; the most power of one of them."""

    sampled_ms: int
    productive_ms: int
    sm_sampled_ms: int = 0
    sm_ms: int = 0
    tensor_sampled_ms: int = 0
    tensor_ms: int = 0
    power_w: int = 0  # 0: not sampled

    @property
    def ratio(self) -> float:
        """The productive share."""
        return self.productive_ms / self.sampled_ms

    @property
    def gpus(self) -> int:
        """How many GPUs were sampled, about."""
        return round(self.sampled_ms / SLOT_MS)

    def at_work(self, most_power_w: int) -> NodeUse:
        """The same, without what was busy and did nothing; `most_power_w`: of a GPU of any node."""
        use = spinning.MinuteUse(*self)
        if not use.is_busy or not use.is_inactive(SPINS):
            return self
        if use.power_w and most_power_w:
            spins = use.power_w <= SPINS["power_ratio"] * most_power_w
        else:
            spins = use.has_activity
        return self._replace(productive_ms=0) if spins else self


#: By node.
SlotUse = Mapping[str, NodeUse]


class Uneven(NamedTuple):
    """Nodes of a job that do less than its others, since when, and the shares of both in the last quarter of an hour."""

    slow: tuple[str, ...]
    others: int
    since_ms: int
    slow_ratio: float
    others_ratio: float
    worked_before: bool
    are_most: bool = False  # more than half of the nodes: they stand still

    @property
    def is_waited_for(self) -> bool:
        """Whether the others wait for them: they have the same part in the job, and work."""
        return self.worked_before and self.slow_ratio >= WORKS_RATIO and not self.are_most

    def waste_nano(self, slow_nano: int, others_nano: int) -> int:
        """What is wasted of what both are paid: the time for which the others wait, or what the slow ones do not do."""
        paid = others_nano if self.is_waited_for else slow_nano
        return round(paid * (1 - self.slow_ratio / self.others_ratio))


class SlotNodes(NamedTuple):
    """The nodes that are compared in a slot, those of them that did far less than the usual one, and whether that works."""

    peers: SlotUse
    slow: frozenset[str]
    works: bool
    are_most: bool = False  # those that did less, of what nodes do without spinning


_NO_NODES: Final = SlotNodes({}, frozenset(), works=False)


def slot_nodes(use: SlotUse, of: Mapping[str, float]) -> SlotNodes:
    """Compare the nodes of a slot; where none works, none is slow."""
    sizes = Counter(each.gpus for each in use.values())
    usual_size = max(sizes, key=lambda gpus: (sizes[gpus], gpus), default=0)
    peers = {node: each for node, each in use.items() if each.gpus == usual_size}
    if len(peers) < 2:
        return _NO_NODES
    slow = _slow(peers, _usual(peers), of)
    if slow:
        return SlotNodes(peers, slow, works=True)
    most_power_w = max(each.power_w for each in peers.values())
    at_work = {node: each.at_work(most_power_w) for node, each in peers.items()}
    slow = _slow(at_work, max(each.ratio for each in at_work.values()), of)
    if 2 * len(slow) > len(peers):
        return SlotNodes(at_work, slow, works=True, are_most=True)
    return SlotNodes(peers, frozenset(), works=_usual(peers) >= of["others_ratio"])


def _usual(peers: SlotUse) -> float:
    return sorted(each.ratio for each in peers.values())[len(peers) // 2]


def _slow(peers: SlotUse, usual: float, of: Mapping[str, float]) -> frozenset[str]:
    """The nodes that do far less than what is usual; none where that is little."""
    limit = of["share_of_others"] * usual
    if usual < of["others_ratio"]:
        return frozenset()
    return frozenset(node for node, each in peers.items() if each.ratio < limit)


class JobSlots:
    """The slots of a job by number."""

    def __init__(self, use: Mapping[int, SlotUse], of: Mapping[str, float]) -> None:
        self._of = of
        self._slots = {number: slot_nodes(each, of) for number, each in use.items()}

    def goes_on(self, last: int) -> bool:
        """Whether any node was slow in the last two slots."""
        return bool(self._at(last).slow or self._at(last - 1).slow)

    def uneven(self, last: int) -> Uneven | None:
        """The nodes that have been slow for so long, up to the slot `last`; None: there are none."""
        peers, slow, _, are_most = self._at(last)
        begins = {node: self._begin(node, last) for node in sorted(slow)}
        worked = {node: self._worked(node, begin) for node, begin in begins.items()}
        found = [
            node
            for node, begin in begins.items()
            if (last - begin + 1) * SLOT_MS >= self._least_ms(len(peers), worked=worked[node])
        ]
        if not found:
            return None
        begin = min(begins[node] for node in found)
        if 2 * (last - begin + 1) < LONGEST_HALVES * self._longest_before(begin):
            return None
        worked_before = all(worked[node] for node in found)
        are_most = are_most and 2 * len(found) > len(peers)
        is_one = len(found) == 1 and len(peers) >= FEW_NODES
        if not (worked_before or is_one or len(found) * ONE_IN <= len(peers)):
            return None
        figures = [self._at(number).peers for number in range(max(begin, last - FIGURE_SLOTS + 1), last + 1)]
        others = [node for node in peers if node not in slow]
        return Uneven(
            tuple(found),
            len(others),
            begin * SLOT_MS - LAG_MS,
            _ratio(each[node] for each in figures for node in found if node in each),
            _ratio(each[node] for each in figures for node in others if node in each),
            worked_before,
            are_most,
        )

    def _at(self, number: int) -> SlotNodes:
        return self._slots.get(number, _NO_NODES)

    def _begin(self, node: str, last: int) -> int:
        """The first slot since which a node has been slow."""
        begin = last
        while node in self._at(begin - 1).slow:
            begin -= 1
        return begin

    def _least_ms(self, nodes: int, *, worked: bool) -> float:
        """For how long a node must be slow."""
        return MINUTE_MS * self._of["minutes" if worked and nodes >= FEW_NODES else "unsure_minutes"]

    def _worked(self, node: str, until: int) -> bool:
        """Whether a node worked as the others, in slots before `until`."""
        before = [self._at(number) for number in range(until - LOOKBACK_SLOTS, until)]
        return (
            sum(each.works and node in each.peers and node not in each.slow for each in before)
            >= WORKED_SLOTS
        )

    def _longest_before(self, until: int) -> int:
        """The longest time in slots for which any node was slow, before `until`."""
        longest, runs = 0, dict[str, int]()
        for number in range(until - LOOKBACK_SLOTS, until):
            runs = {node: runs.get(node, 0) + 1 for node in self._at(number).slow}
            longest = max(longest, *runs.values()) if runs else longest
        return longest


def _ratio(uses: Iterable[NodeUse]) -> float:
    found = [*uses]
    sampled_ms = sum(each.sampled_ms for each in found)
    return sum(each.productive_ms for each in found) / sampled_ms if sampled_ms else 0.0


def finding(
    of: LedgerSettings, job: str, uneven: Uneven, waste_nano: int, at_ms: int, about: Mapping[str, str]
) -> LedgerFinding:
    """The sentence and the evidence of a job with slow nodes. `waste_nano`: per hour; `about`: its owner, team and project."""
    more = len(uneven.slow) - 1

    def said(at_most: int) -> str:
        if uneven.are_most:
            nodes = f"{len(uneven.slow)} of {len(uneven.slow) + uneven.others} nodes"
            other, does = ("the other one", "works") if uneven.others == 1 else ("the others", "work")
            since = f"since {short_instant(uneven.since_ms, at_ms)} UTC"
            if uneven.slow_ratio < _STILL_RATIO:
                work = f"{nodes} stand still {since}, {other} {does}"
            else:
                used = f"{100 * uneven.slow_ratio:.0f} % GPU use"
                work = f"{nodes} at {used} {since}, {other} at {100 * uneven.others_ratio:.0f} %"
            return (
                f"{short(job, at_most)}: {work};"
                f" {rounded_usd(waste_nano)}/h unused; look what its ranks wait for, restart it, else {unheeded(waste_nano, at_ms)}"
            )
        node = f"node {short(uneven.slow[0], at_most)}" + (f" and {more} more" if more else "")
        since = f"since {short_instant(uneven.since_ms, at_ms)} UTC"
        others = (
            f"{uneven.others} others at {100 * uneven.others_ratio:.0f} %"
            if uneven.others > 1
            else f"the other one at {100 * uneven.others_ratio:.0f} %"
        )
        wait = (
            f", which wait for {rounded_usd(waste_nano)}/h"
            if uneven.is_waited_for
            else f"; {rounded_usd(waste_nano)}/h unused"
        )
        advice = "replace it" if not more else "replace them"
        return (
            f"{short(job, at_most)}: {node} at {100 * uneven.slow_ratio:.0f} % GPU use {since}, {others}{wait};"
            f" {advice}, else {unheeded(waste_nano, at_ms)}"
        )

    return LedgerFinding(
        NAME, severity_of(of.severity, waste_nano, of.thresholds), JOB, job, at_ms, sentence(said),
        _evidence(job, uneven.since_ms, at_ms), uneven.slow_ratio / uneven.others_ratio, waste_nano, 0,
        about["owner"], about["team"], about["project"], margins=(*margins(of.thresholds, uneven, waste_nano, at_ms),),
    )  # fmt: skip


def _evidence(job: str, since_ms: int, at_ms: int) -> str:
    """SQL for what each node's GPUs have done, the slow ones first."""
    since, until = (f"toDateTime({each // 1000:d}, 'UTC')" for each in (since_ms, at_ms))
    return (
        "SELECT u.node AS node, round(sum(u.productive_gpu_ms) / 1000 / greatest(sum(u.sampled_gpu_s), 1), 4) AS productive_ratio,"
        " max(u.power_w_max) AS power_w_max, max(u.memory_used_mib_max) AS memory_used_mib_max, max(u.minute) AS last_minute"
        f" FROM job_usage_minutes AS u FINAL WHERE u.job_id = {quoted(job)} AND u.minute >= {since} AND u.minute < {until}"
        f" GROUP BY node ORDER BY productive_ratio, node LIMIT {_SHOWN}"
    )


def margins(of: Mapping[str, float], uneven: Uneven, waste_nano: int, at_ms: int) -> list[Margin]:
    """How far nodes that do less are from an alert."""
    name = "minutes" if uneven.worked_before else "unsure_minutes"
    minutes = (at_ms - LAG_MS - uneven.since_ms) / MINUTE_MS
    return [
        below_threshold("use of the slow nodes / that of the others", uneven.slow_ratio / uneven.others_ratio, of["share_of_others"]),
        from_threshold_on("use of the others", uneven.others_ratio, of["others_ratio"]),
        from_threshold_on("minutes for which it has been so", minutes, of[name]),
        flag("they worked as the others before", uneven.worked_before),
        from_threshold_on("dollars per hour that are wasted", waste_nano / NANO_PER_USD, of[LEAST_WASTE]),
    ]  # fmt: skip


RULE: Final = LedgerRule(
    name=NAME,
    title="Slow nodes",
    severity=TICKET,
    about="`job`",
    holds=(
        "some of its nodes worked as the others before, and have done less than half of what the others do in"
        " each five minutes of the last 30 (60 for a job of two or three nodes): a few that the others wait for, or"
        " most of them, which wait. $1/h or more are wasted. It ends when none has for 10 min"
    ),
    runbook="runbook.md#slow-nodes",
    yields_to=("stalled", "idle_gpus", "slow_progress", "spinning"),
    thresholds={
        "share_of_others": Threshold(0.5, 0.01, 0.99, "GPU use of a slow node / that of the usual one"),
        "others_ratio": Threshold(0.5, 0.01, 1, "GPU use of the usual node, at least"),
        "minutes": Threshold(30, 5, 300, "minutes for which nodes are slow, in whole fives", True),
        "unsure_minutes": Threshold(
            60,
            5,
            300,
            "the same, of jobs of two or three nodes, and of nodes that never worked as the others",
            True,
        ),
        LEAST_WASTE: Threshold(1, 0, 1e9, "dollars per hour that are wasted"),
    }
    | page_from("dollars per hour that are wasted"),
    each="job",
    finding=finding,
    margins=margins,
)
