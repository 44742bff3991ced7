"""A plain judge of the contract's rules: every 10 s of a log, one job after another, alerts and burn rates.

Must import nothing of the project; it takes one short cut: a job that ended and is silent waits for the next line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.alert import Alert
from tests.oracle.burn import PER_HOUR, WINDOWS_MS, Burn
from tests.oracle.controls import matches, period
from tests.oracle.knowledge import Knowledge, Told
from tests.oracle.model import HOUR_MS, MINUTE_MS
from tests.oracle.openings import Openings
from tests.oracle.pieces import SCALE
from tests.oracle.wastes import GOES_ON, WASTES, page_usd

STEP_MS = 10_000
SAME_EPISODE_MS = 10 * MINUTE_MS
DRIFT_WAITS_MS = HOUR_MS
KNOWN_MS = 24 * HOUR_MS
LEAST_EXTRA_NANO = 10**9  # "its extra cost over the longer one is at least $1"


class Rule(NamedTuple):
    name: str
    severity: str
    long_ms: int
    long_ratio: Fraction
    short_ms: int
    short_ratio: Fraction


BURN_RULES = (
    Rule("burn_fast", "ticket", 15 * MINUTE_MS, Fraction("2.5"), 5 * MINUTE_MS, Fraction(6)),
    Rule("burn_sustained", "ticket", HOUR_MS, Fraction("2.1"), 15 * MINUTE_MS, Fraction("2.1")),
    Rule("burn_drift", "ticket", 6 * HOUR_MS, Fraction("1.4"), HOUR_MS, Fraction("1.4")),
)
BURNS = {rule.name for rule in BURN_RULES}
FACTS: dict[str, tuple[str, Callable[[Burn, int], bool]]] = {
    "unpriced": ("ticket", Burn.unpriced),
    "silent_job": ("ticket", Burn.silent),
    "retry_loop": ("ticket", lambda now, at_ms: now.attempts.retries(at_ms)),
    "idle_gpus": ("ticket", Burn.idles),
    "runaway_length": ("ticket", lambda now, at_ms: now.runs_away(at_ms, goes_on=False)),
    "traffic": ("ticket", lambda now, at_ms: not is_over(now, at_ms) and now.moves(at_ms, goes_on=False)),
    "price_basis": ("ticket", lambda now, at_ms: now.attempts.paid_more(at_ms)),
    "ceiling": ("page", lambda now, at_ms: now.attempts.above_ceiling(at_ms)),
    "no_checkpoint": ("ticket", lambda now, at_ms: now.attempts.saves_nothing(at_ms)),
    "held": ("ticket", lambda now, at_ms: now.attempts.holds_gpus(at_ms)),
    "stalled": ("ticket", lambda now, at_ms: now.attempts.stands_still(at_ms)),
    "slow_progress": ("ticket", lambda now, at_ms: now.attempts.goes_slowly(at_ms)),
}
WITHOUT_FIGURES = ("unpriced", "silent_job")
#: How far back the figures of a rule look, where that is not the shortest window.
LOOKS_BACK_MS = (
    {rule.name: rule.long_ms for rule in BURN_RULES}
    | dict.fromkeys(WITHOUT_FIGURES, 0)
    | {"traffic": HOUR_MS}
)
#: Of rules that tell of the same the one that fires keeps the other one from opening.
TOLD_BY = {
    "idle_gpus": ("stalled", "slow_progress"),
    "stalled": ("idle_gpus",),
    "slow_progress": ("stalled", "idle_gpus"),
    "no_checkpoint": ("stalled", "idle_gpus"),
    "ceiling": ("burn_fast", "burn_sustained", "burn_drift"),
}
#: It does for so long after it cleared, too.
TOLD_AFTER_MS = {"no_checkpoint": HOUR_MS, "ceiling": 15 * MINUTE_MS}


URGENCY = ("digest", "ticket", "page")
SEVERITY = {rule.name: rule.severity for rule in BURN_RULES} | {name: fact[0] for name, fact in FACTS.items()}
SUSTAINED_WAITS_MS = 15 * MINUTE_MS  # its shorter window: this has no cost from before burn_fast cleared
CLEARS_BELOW = Fraction("0.8")


class JobJudge:
    """The rules of one job, tick by tick."""

    def __init__(self, job_id: str, knowledge: Knowledge) -> None:
        self.job_id = job_id
        self.alerts: list[Alert] = []
        self._knowledge = knowledge
        self._latest: dict[str, Alert] = {}
        self._openings = Openings()
        # Burns that ended with an attempt: until when a next one that goes on like it is known, and what was said of it.
        self._known: dict[str, tuple[int, Fraction]] = {}
        # Facts that went on though their alert was over: until when that is known, since when, and what was said to be wasted.
        self._named: dict[str, tuple[int, int, Fraction]] = {}
        self._runaway: tuple[int, int] | None = None  # when it was told of, and when it is twice as old

    def stands(self, rule: str) -> bool:
        """Whether its alert fires because it holds."""
        return self.firing(rule) and self._latest[rule].quiet_ms is None

    def firing(self, rule: str) -> bool:
        latest = self._latest.get(rule)
        return latest is not None and latest.resolved_ms is None

    def settled(self, now: Burn | None, at_ms: int) -> bool:
        """Whether no tick can change anything until another line is read."""
        if now is None:
            return True
        if not is_over(now, at_ms):
            return False
        changing = (*(rule.name for rule in BURN_RULES), *(name for name in FACTS if name != "unpriced"))
        unpriced_ms = now.unpriced_from_ms
        is_seen = unpriced_ms is None or unpriced_ms < at_ms  # else the next tick opens `unpriced`
        is_changing = any(self.firing(name) for name in changing)
        return is_seen and not is_changing and not self._is_withheld("unpriced")

    def _is_withheld(self, rule: str) -> bool:
        """Whether it fires under a silence, which may end."""
        return self.firing(rule) and self._latest[rule].silenced

    def tick(self, at_ms: int) -> Burn | None:
        """Judge all rules, in their order."""
        now = self._knowledge.burn(self.job_id, at_ms)
        if now is not None:
            for rule in BURN_RULES:
                self._judge_burn(rule, now, at_ms)
            for name in FACTS:
                # Between two looks it stays as it was.
                looks = name != "idle_gpus" or now.looked_at(at_ms)
                held = self._holds(name, now, at_ms) if looks else self.stands(name)
                held = held and (self.firing(name) or not self._told_by_others(name, now, at_ms))
                self._judge_fact(name, now.settings[name].enabled and held, now, at_ms)
            for alert in self._latest.values():
                if alert.firing and alert.silenced:
                    alert.silenced = self._is_silenced(alert, now, at_ms)
        return now

    def _judge_burn(self, rule: Rule, now: Burn, at_ms: int) -> None:
        setting = now.settings[rule.name]
        limits = setting.thresholds
        is_open = self.firing(rule.name)
        if not (is_open or setting.enabled):
            return
        if not is_open and is_over(now, at_ms):  # "an ended job opens nothing"
            return
        short = now.accrued(at_ms, rule.short_ms)
        if not is_open and not _at_least(short, limits["short_ratio"]):
            return
        rule = rule._replace(long_ratio=limits["long_ratio"], short_ratio=limits["short_ratio"])
        long = now.accrued(at_ms, rule.long_ms)
        held = _at_least(short, rule.short_ratio) and _at_least(long, rule.long_ratio)
        silent = self._silent(rule.name, now, at_ms) or self._explained(rule, now, at_ms)
        clears = False
        opens = held and not silent and _opens(rule, now, at_ms)
        if is_open:
            # A window without an expected cost decides nothing while the next attempt may come.
            waits = short[1] == 0 and at_ms < now.undecided_until_ms
            low = not _at_least(short, CLEARS_BELOW * rule.short_ratio) and not waits
            clears = is_over(now, at_ms) or not setting.enabled or silent
            if not clears and not self.stands(rule.name):
                low = not opens
                if opens:
                    self._openings.holds_again(self._latest[rule.name], at_ms)
                elif self._burns_faster(rule, now, at_ms):
                    self._latest[rule.name].quiet_ms = at_ms
            clears = clears or (low and not self._openings.stays(self._latest[rule.name], at_ms))
        elif opens:
            self._open(rule.name, now, at_ms)
        if held and self.stands(rule.name):
            take_figures(self._latest[rule.name], now, at_ms, rule.long_ms)
        if clears:
            self._clear(rule.name, now, at_ms)
            self._remember(self._latest[rule.name], is_over(now, at_ms), silent or not setting.enabled, at_ms)
        elif is_open and self.stands(rule.name) and self._raises(self._latest[rule.name], now, at_ms):
            self._changed(self._latest[rule.name], now, at_ms)

    def _burns_faster(self, rule: Rule, now: Burn, at_ms: int) -> bool:
        """Whether a faster burn rule would open if the alert of this one did not stay open."""
        faster = [other for other in BURN_RULES if other.long_ms < rule.long_ms]
        return any(now.settings[other.name].enabled and _opens(other, now, at_ms) for other in faster)

    def _urgency(self, name: str, now: Burn, at_ms: int) -> str:
        """How urgent a burn is at a tick, by what it costs per hour above what is expected."""
        setting = now.settings[name]
        shown_ms = now.burning_ms(at_ms)
        extra = now.cost.rate(shown_ms) - now.expected.rate(shown_ms)
        unit = 10**9 * PER_HOUR
        if setting.severity == "page" or extra >= setting.thresholds["page_usd_per_hour"] * unit:
            return "page"
        if extra < setting.thresholds["ticket_usd_per_hour"] * unit:
            return "digest"
        # "no ticket if it goes on within a day in a next attempt", unless it is half as dear again
        since_ms = self._latest[name].started_ms if self.firing(name) else at_ms
        is_known = any(
            since_ms < until_ms and extra < Fraction("1.5") * said for until_ms, said in self._known.values()
        )
        return "digest" if is_known else "ticket"

    def _remember(self, alert: Alert, is_over: bool, gives_way: bool, at_ms: int) -> None:
        """Note that a burn ended with its attempt, and those that it went on from; one that is over is forgotten."""
        if not is_over:
            self._known = self._known if gives_way else {}
            return
        since = [name for name, (until_ms, _) in self._known.items() if alert.started_ms < until_ms]
        if alert.opened_as in ("ticket", "page"):
            self._known[alert.rule] = at_ms + KNOWN_MS, alert.extra_said
        for name in since:
            self._known[name] = at_ms + KNOWN_MS, self._known[name][1]

    def _raises(self, alert: Alert, now: Burn, at_ms: int) -> bool:
        """Whether a burn is more urgent now than it was in the episode so far; it stays so."""
        urgency = self._urgency(alert.rule, now, at_ms)
        before = alert.opened_as
        if before is not None and URGENCY.index(urgency) <= URGENCY.index(before):
            return False
        if before is not None and urgency == "page":
            alert.page_since_ms = at_ms
        if before == "digest":
            alert.ticket_since_ms = at_ms
        alert.opened_as = urgency
        shown_ms = now.burning_ms(at_ms)
        alert.extra_said = Fraction(now.cost.rate(shown_ms) - now.expected.rate(shown_ms))
        if alert.rule in self._known and urgency != "digest":
            self._known[alert.rule] = self._known[alert.rule][0], alert.extra_said
        return True

    def _told_by_others(self, name: str, now: Burn, at_ms: int) -> bool:
        after_ms = TOLD_AFTER_MS.get(name, 10 * MINUTE_MS)
        latest = {other: self._latest[other] for other in TOLD_BY.get(name, ()) if other in self._latest}
        others = [
            other
            for other, alert in latest.items()
            if alert.resolved_ms is None or at_ms < alert.resolved_ms + after_ms
        ]
        if name == "ceiling":  # a ticket keeps no page from being one
            others = [other for other in others if self._as_urgent(other, name, now)]
        return bool(others)

    def _as_urgent(self, burn: str, name: str, now: Burn) -> bool:
        own = now.settings[name].severity or SEVERITY[name]
        return URGENCY.index(self._latest[burn].opened_as or "digest") >= URGENCY.index(own)

    def _silent(self, rule: str, now: Burn, at_ms: int) -> bool:
        waits = {"burn_sustained": SUSTAINED_WAITS_MS, "burn_drift": DRIFT_WAITS_MS}
        if rule == "burn_fast":  # one that flaps tells of it, unless this would be more urgent
            flapping = [name for name in waits if self.firing(name) and name in self._openings.flapping]
            levels = [URGENCY.index(self._latest[name].opened_as or "digest") for name in flapping]
            return any(level >= URGENCY.index(self._urgency(rule, now, at_ms)) for level in levels)
        ceiling = self._latest.get("ceiling")
        if (
            ceiling is not None
            and rule in waits
            and (
                (now.settings["ceiling"].severity or SEVERITY["ceiling"]) == "page"
                or self._urgency(rule, now, at_ms) != "page"
            )
            and (ceiling.resolved_ms is None or at_ms < ceiling.resolved_ms + waits[rule])
        ):
            return True
        if rule == "burn_sustained":
            if self.firing("burn_drift"):
                told = self._latest["burn_drift"].opened_as or "digest"
                if URGENCY.index(told) >= URGENCY.index(self._urgency(rule, now, at_ms)):
                    return True
            fast = self._latest.get("burn_fast")
            return fast is not None and (
                fast.resolved_ms is None or at_ms < fast.resolved_ms + SUSTAINED_WAITS_MS
            )
        if rule == "burn_drift":
            louder = [self._latest[name] for name in ("burn_fast", "burn_sustained") if name in self._latest]
            return any(x.resolved_ms is None or at_ms < x.resolved_ms + DRIFT_WAITS_MS for x in louder)
        return False

    def _explained(self, rule: Rule, now: Burn, at_ms: int) -> bool:
        """Whether `price_basis` tells something, and leaves too little for this one."""
        if not self._is_told(rule, now, at_ms):
            return False
        short = self._rest(rule.short_ms, now, at_ms)
        if self.firing(rule.name):
            return not _at_least(short, CLEARS_BELOW * rule.short_ratio)
        long = self._rest(rule.long_ms, now, at_ms)
        return not (_at_least(short, rule.short_ratio) and _at_least(long, rule.long_ratio))

    def _rest(self, window_ms: int, now: Burn, at_ms: int) -> tuple[int | Fraction, int | Fraction]:
        """A window without what `price_basis` tells of."""
        cost, expected = now.accrued(at_ms, window_ms)
        return cost - now.dearer(at_ms, window_ms), expected

    def _is_told(self, rule: Rule, now: Burn, at_ms: int) -> bool:
        """Whether `price_basis` fires, or the shorter window contains cost from when it did; no ticket hides burn_fast's page."""
        of_basis = now.settings["price_basis"].severity or SEVERITY["price_basis"]
        is_page = self._urgency(rule.name, now, at_ms) == "page" or (
            self.firing(rule.name) and self._latest[rule.name].opened_as == "page"
        )
        if rule.name == "burn_fast" and is_page and of_basis == "ticket":
            return False
        latest = self._latest.get("price_basis")
        if latest is not None and (latest.resolved_ms is None or at_ms < latest.resolved_ms + rule.short_ms):
            return True
        return now.settings["price_basis"].enabled and self._holds("price_basis", now, at_ms)

    def _holds(self, fact: str, now: Burn, at_ms: int) -> bool:
        if fact == "traffic" and self.stands(fact):
            return not is_over(now, at_ms) and now.moves(at_ms, goes_on=True)
        if fact == "runaway_length":
            if self.firing(fact):
                return now.runs_away(at_ms, goes_on=self.stands(fact))
            return now.runs_away(at_ms, goes_on=False) and not self._is_told_of(now, at_ms)
        return FACTS[fact][1](now, at_ms)

    def _is_told_of(self, now: Burn, at_ms: int) -> bool:
        """Whether it was told that the job is long or late: "again at twice the age", or after another deadline."""
        if self._runaway is None:
            return False
        notified_ms, again_ms = self._runaway
        resolved_ms = self._latest["runaway_length"].resolved_ms
        if resolved_ms is not None and at_ms <= resolved_ms + SAME_EPISODE_MS:
            return False
        late_ms = now.late_from_ms
        return at_ms < again_ms and not (late_ms is not None and notified_ms < late_ms <= at_ms)

    def _judge_fact(self, rule: str, holds: bool, now: Burn, at_ms: int) -> None:
        if holds:
            if not self.firing(rule):
                self._open(rule, now, at_ms)
            self._openings.holds_again(self._latest[rule], at_ms)
            self._latest[rule].held_ms = at_ms
            if rule not in WITHOUT_FIGURES:
                take_figures(self._latest[rule], now, at_ms, LOOKS_BACK_MS.get(rule, WINDOWS_MS[0]))
        elif self.firing(rule):
            if self.stands(rule):
                # It held at every tick before this one, also at those at which nothing could change.
                self._latest[rule].held_ms = at_ms - STEP_MS
            if rule == "runaway_length" and not now.settings[rule].enabled and self._holds(rule, now, at_ms):
                self._runaway = None
            ends = not now.settings[rule].enabled or is_over(now, at_ms)
            if not ends and self._openings.stays(self._latest[rule], at_ms):
                return
            off = not now.settings[rule].enabled and self._holds(rule, now, at_ms)
            self._clear(rule, now, at_ms)
            if rule in GOES_ON:
                goes_on = not off and GOES_ON[rule](now, self._latest[rule].started_ms)
                until_ms = at_ms + 7 * KNOWN_MS if goes_on else at_ms
                self._named[rule] = until_ms, at_ms, self._latest[rule].extra_said

    def _open(self, rule: str, now: Burn, at_ms: int) -> None:
        latest = self._latest.get(rule)
        cleared_ms = None if latest is None else latest.resolved_ms
        if latest is not None and cleared_ms is not None and at_ms <= cleared_ms + SAME_EPISODE_MS:
            latest.resolved_ms = None
            latest.firings += 1
        else:
            latest = self._latest[rule] = Alert(rule, self.job_id, at_ms)
            self.alerts.append(latest)
        self._openings.count(rule, at_ms)
        if rule == "runaway_length":
            first_ms = at_ms if now.first_paid_ms is None else now.first_paid_ms
            self._runaway = at_ms, at_ms + max(at_ms - first_ms, 0)
        if rule in BURNS:
            self._raises(latest, now, at_ms)
        self._changed(latest, now, at_ms)

    def _clear(self, rule: str, now: Burn, at_ms: int) -> None:
        self._latest[rule].resolved_ms, self._latest[rule].quiet_ms = at_ms, None
        self._changed(self._latest[rule], now, at_ms)

    def _changed(self, alert: Alert, now: Burn, at_ms: int) -> None:
        """Note the change of status, and whether a silence keeps it from being delivered."""
        alert.changes.append((at_ms, alert.status))
        alert.severity = alert.opened_as or now.settings[alert.rule].severity or SEVERITY[alert.rule]
        if alert.rule in WASTES and alert.opened_as is None:
            thresholds, waste = now.settings[alert.rule].thresholds, WASTES[alert.rule](now, at_ms)
            unit = 10**9 * PER_HOUR
            if waste is not None and waste >= page_usd(alert.rule, now, at_ms) * unit:
                alert.severity = "page"
            elif waste and waste < thresholds.get("ticket_usd_per_hour", 0) * unit:
                alert.severity = "page" if alert.severity == "page" else "digest"
            if alert.rule in GOES_ON:
                assert waste is not None
                until_ms, since_ms, said = self._named.get(alert.rule, (at_ms, at_ms, Fraction(0)))
                is_known = (
                    at_ms < until_ms and waste < Fraction("1.5") * said and GOES_ON[alert.rule](now, since_ms)
                )
                if alert.severity == "ticket" and is_known:
                    alert.severity = "digest"
                alert.extra_said = said if alert.severity == "digest" else Fraction(waste)
            alert.opened_as = alert.severity
        alert.silenced = self._is_silenced(alert, now, at_ms)

    def _is_silenced(self, alert: Alert, now: Burn, at_ms: int) -> bool:
        fields = now.dimensions | {"rule": alert.rule, "severity": alert.severity}
        silences = [c for c in self._knowledge.controls(at_ms) if c["kind"] == "silence"]
        return any(matches(c, fields) and period(c)[0] <= at_ms < period(c)[1] for c in silences)


def is_over(now: Burn, at_ms: int) -> bool:
    """Whether the job has ended for its alerts."""
    return now.ended and at_ms >= now.undecided_until_ms


def _opens(rule: Rule, now: Burn, at_ms: int) -> bool:
    """Whether a burn rule opens, unless another one is told."""
    limits = now.settings[rule.name].thresholds
    long, short = now.accrued(at_ms, rule.long_ms), now.accrued(at_ms, rule.short_ms)
    return (
        _at_least(short, limits["short_ratio"])
        and _at_least(long, limits["long_ratio"])
        and now.paid_since(at_ms, at_ms - rule.short_ms)
        and long[0] - long[1] >= limits["extra_usd"] * LEAST_EXTRA_NANO * SCALE * MINUTE_MS
    )


def _at_least(window: tuple[int | Fraction, int | Fraction], ratio: Fraction) -> bool:
    """Whether cost / expected cost reaches a ratio; an expected cost of 0 is not judged and reaches none."""
    cost, expected = window
    return expected > 0 and cost * ratio.denominator >= expected * ratio.numerator


def take_figures(alert: Alert, now: Burn, at_ms: int, window_ms: int) -> None:
    cost, expected = now.window(at_ms, window_ms)
    if alert.rule not in FACTS:
        cost, expected = now.accrued(at_ms, window_ms)
    elapsed_ms = now.elapsed_ms(at_ms, window_ms)
    alert.held_ms, alert.window_ms = at_ms, window_ms
    if alert.rule == "traffic":  # its figures are what moves against what accrues with time
        traffic = now.traffic(at_ms)
        cost, expected, elapsed_ms = traffic, cost - traffic, HOUR_MS
    if alert.rule == "price_basis":  # what five minutes cost and are expected to cost, as it is now
        shown_ms = now.burning_ms(at_ms)
        rates = now.cost.rate(shown_ms), now.expected.rate(shown_ms)
        cost, expected = (rate * window_ms * MINUTE_MS for rate in rates)
        elapsed_ms = window_ms
    alert.ratio = Fraction(cost, expected) if alert.rule not in FACTS else Fraction(0)
    alert.cost_nano = Fraction(cost, MINUTE_MS * SCALE)
    if elapsed_ms:
        alert.nano_per_hour = alert.cost_nano * HOUR_MS / elapsed_ms
        alert.expected_nano_per_hour = Fraction(expected * HOUR_MS, MINUTE_MS * SCALE * elapsed_ms)


def judge(told: Sequence[Told], *, until_ms: int) -> list[Alert]:
    """All alerts of a log, judged at every whole 10 s up to an instant; sorted by start, rule, subject."""
    knowledge = Knowledge(told)
    alerts: list[Alert] = []
    for job_id in knowledge.job_ids:
        alerts += judge_job(job_id, knowledge, until_ms=until_ms)
    return sorted(alerts, key=lambda a: (a.started_ms, a.rule, a.subject))


def judge_job(job_id: str, knowledge: Knowledge, *, until_ms: int) -> list[Alert]:
    """The alerts of one job."""
    one = JobJudge(job_id, knowledge)
    instants = knowledge.instants(job_id)
    at_ms = _tick_at_or_after(instants[0])
    while at_ms <= until_ms:
        now = one.tick(at_ms)
        if one.settled(now, at_ms):
            later = bisect_right(instants, at_ms)
            if later == len(instants):
                break
            at_ms = _tick_at_or_after(instants[later])
        else:
            at_ms += STEP_MS
    return one.alerts


def _tick_at_or_after(at_ms: int) -> int:
    return -(-at_ms // STEP_MS) * STEP_MS


class Rates(NamedTuple):
    """A row of `burn_rates`, in nano-dollars per hour."""

    windows: tuple[Fraction, ...]  # 5 min, 15 min, 1 h, 6 h
    expected: Fraction  # in force from this instant on; 0 while nothing is paid
    now: Fraction  # what accrues from this instant on


def rates(knowledge: Knowledge, job_id: str, at_ms: int) -> Rates:
    """The burn rates of a job at an instant."""
    known = knowledge.burn(job_id, at_ms)
    if known is None:
        return Rates((Fraction(0),) * len(WINDOWS_MS), Fraction(0), Fraction(0))
    shown_ms = known.burning_ms(at_ms)
    return Rates(
        tuple(known.rate_nano(at_ms, window_ms) for window_ms in WINDOWS_MS),
        Fraction(known.expected.rate(shown_ms), PER_HOUR),
        Fraction(known.cost.rate(shown_ms), PER_HOUR),
    )
