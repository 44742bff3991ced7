"""The naive twin of the judge: rules as the contract words them, one job and one tick at a time, in fractions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

USD = 10**9
TICK_MS = 10_000
MINUTE = 60_000
HOUR = 60 * MINUTE
# name -> (position of the longer window, its ratio, position of the shorter window, its ratio)
BURN = {
    "burn_fast": (1, Fraction("2.5"), 0, Fraction(6)),
    "burn_sustained": (2, Fraction("2.1"), 1, Fraction("2.1")),
    "burn_drift": (3, Fraction("1.4"), 2, Fraction("1.4")),
}
FACTS = {
    "unpriced": 3, "silent_job": 4, "retry_loop": 5, "idle_gpus": 6, "runaway_length": 7, "traffic": 8, "price_basis": 9,
}  # fmt: skip
NEVER = 2**62
#: The lengths of the windows.
LENGTHS = (5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR)


@dataclass(frozen=True)
class Settings:
    """Thresholds of a set of jobs; ratios and dollars by burn rule."""

    burn: dict[str, tuple[Fraction, Fraction, int]] = field(
        default_factory=lambda: {name: (rule[1], rule[3], USD) for name, rule in BURN.items()}
    )
    off: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()
    longest: int = 168 * HOUR
    grace: int = 0
    traffic: int = 5 * USD
    traffic_ratio: Fraction = Fraction(1)
    start_times: Fraction = Fraction(2)
    repeated_ratio: Fraction = Fraction("0.5")
    dear: int = 100 * USD
    #: Dollars per hour above the expected rate, from which on a burn is a ticket, and a page.
    told: tuple[int, int] = (USD, 100 * USD)


DEFAULT = Settings()


@dataclass(frozen=True)
class At:
    """What is known of a job at a tick; four windows."""

    cost: tuple[int, ...]
    expected: tuple[int, ...]
    elapsed: tuple[int, ...]
    paid_whole: tuple[bool, ...]
    ended: bool
    facts: frozenset[int] = frozenset()
    undecided: bool = False
    paid_now: bool = True
    since_paid: int = HOUR
    traffic: tuple[int, ...] = (0, 0, 0, 0)
    basis: tuple[int, ...] = (0, 0, 0, 0)
    unseen: frozenset[int] = frozenset()
    now_rate: int = 0
    expected_rate: int = 0
    steady: int = 0
    repeated: int = 0
    recurring: int = 0

    @property
    def over(self) -> bool:
        """Ended for good."""
        return self.ended and not self.undecided

    def accrued(self, window: int) -> int:
        """What is left without traffic."""
        return self.cost[window] - self.traffic[window]

    def ratio(self, window: int, basis: bool = True) -> Fraction:
        """Zero where it is not judged; `basis`: with what `price_basis` tells of."""
        rest = self.accrued(window) - (0 if basis else self.basis[window])
        return Fraction(rest, self.expected[window]) if self.expected[window] else Fraction(0)


@dataclass
class Episode:
    """One rule's last episode."""

    firing: bool = False
    started: int = 0
    fired: int = 0
    cleared: int | None = None
    held: int = 0
    firings: int = 0
    cost: int = 0
    expected: int = 0
    elapsed: int = 0
    short_ratio: Fraction = Fraction(0)
    #: Of runaway length: when the job is twice as old as when it was told of.
    again: int | None = field(default=None, compare=False)
    level: int = 0  # of a burn rule: 0: digest, 1: ticket, 2: page
    since: dict[int, int] = field(default_factory=dict)  # when it reached a level that it had not begun with


@dataclass
class Job:
    """The memory of one job."""

    episodes: dict[str, Episode] = field(default_factory=dict)
    #: Of each rule when it opened, also while its alert stayed open because it flaps; and since when that is quiet.
    openings: dict[str, list[int]] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)
    flaps: dict[str, bool] = field(default_factory=dict)
    #: Of burns that ended with an attempt: until when one that goes on is known; and what was last said of each rule.
    known: dict[str, int] = field(default_factory=dict)
    said: dict[str, int] = field(default_factory=dict)
    settings: Settings = DEFAULT
    deadline: int = NEVER
    start: int = 0  # what its traffic cost in its first hour

    def judge(self, ticks: list[int], facts: list[At]) -> list[tuple[int, str, str, Episode]]:
        """(instant, rule, what, the episode then), in order."""
        found: list[tuple[int, str, str, Episode]] = []
        for t, at in zip(ticks, facts, strict=True):
            for rule in (*BURN, *FACTS):
                what = self._fact(rule, t, at) if rule in FACTS else self._burn(rule, t, at)
                if what:
                    found.append((t, rule, what, replace(self.episodes[rule])))
        for rule in BURN:
            episode = self.episodes.get(rule)
            told = [entry for entry in found if entry[1] == rule]
            if (
                episode
                and episode.firing
                and ticks[0] <= episode.held
                and (not told or told[-1][3].held < episode.held)
            ):
                found.append((episode.held, rule, "held", replace(episode)))
        return found

    def _firing(self, rule: str) -> bool:
        return rule in self.episodes and self.episodes[rule].firing

    def _stands(self, rule: str) -> bool:
        """Whether its alert fires because it holds."""
        return self._firing(rule) and rule not in self.quiet

    def _stays(self, rule: str, t: int) -> bool:
        """Whether the alert of a rule that has opened more than three times in three hours stays open."""
        if not self.flaps[rule]:
            return False
        return t < self.quiet.setdefault(rule, t) + HOUR

    def _silent(self, rule: str, t: int, at: At) -> bool:
        outranked_by = {"burn_fast": [], "burn_sustained": ["burn_fast"]}.get(rule, list(BURN)[:2])
        if any(self._firing(other) for other in outranked_by):
            return True
        if rule == "burn_fast":
            slower = [each for each in list(BURN)[1:] if self._firing(each) and self.flaps[each]]
            return any(self.episodes[each].level >= self._level(rule, t, at) for each in slower)
        drift = self.episodes.get("burn_drift")
        if rule == "burn_sustained" and drift and drift.firing and drift.level >= self._level(rule, t, at):
            return True
        if rule == "burn_sustained" and "burn_fast" in self.episodes:
            last = self.episodes["burn_fast"].cleared
            return last is not None and t < last + 15 * MINUTE  # what it would remember was put right
        if rule != "burn_drift":
            return False
        cleared = [self.episodes[other].cleared for other in outranked_by if other in self.episodes]
        return any(instant is not None and t < instant + HOUR for instant in cleared)

    def _explains(self, cause: str, rule: str, t: int, at: At) -> bool:
        """Whether the rule of a cause fires at this tick, or fired within the shorter window."""
        level = self.episodes[rule].level if self._firing(rule) else 0
        if (
            rule == "burn_fast"
            and max(level, self._level(rule, t, at)) == 2
            and cause not in self.settings.pages
        ):
            return False
        last = self.episodes[cause].cleared if cause in self.episodes else None
        recent = last is not None and t < last + LENGTHS[BURN[rule][2]]
        holds = cause not in self.settings.off and self._holds(cause, t, at)
        return self._firing(cause) or recent or holds

    def _explained(self, rule: str, t: int, at: At) -> bool:
        if not self._explains("price_basis", rule, t, at):
            return False
        long, _, short, _ = BURN[rule]
        long_ratio, short_ratio, _ = self.settings.burn[rule]
        if self._firing(rule):
            return at.ratio(short, False) < Fraction(8, 10) * short_ratio
        return not (at.ratio(long, False) >= long_ratio and at.ratio(short, False) >= short_ratio)

    def _moves(self, at: At) -> bool:
        """Whether traffic is dear, new, or the same again and again."""
        settings, traffic = self.settings, at.traffic[2]
        rest = max(at.cost[2] - traffic, 0)

        def reaches(amount: int, ratio: Fraction, part: Fraction = Fraction(1)) -> bool:
            return amount >= part * settings.traffic and amount >= part * ratio * rest

        is_open = self._stands("traffic")
        comes_again = reaches(at.recurring if is_open else at.repeated, settings.repeated_ratio)
        if comes_again and rest + Fraction(at.recurring, 2) > Fraction(6, 5) * at.expected[2]:
            return True
        if 5 * at.cost[2] <= 6 * at.expected[2]:
            return False
        if is_open:
            return reaches(traffic, settings.traffic_ratio, Fraction(8, 10))
        is_young = 4 * traffic < 5 * at.traffic[1] and 4 * at.traffic[1] < settings.dear
        is_new = at.since_paid >= HOUR and traffic > settings.start_times * self.start and not is_young
        is_worth = traffic >= settings.dear or is_new or reaches(at.steady, settings.traffic_ratio)
        return reaches(traffic, settings.traffic_ratio) and is_worth

    def _burn(self, rule: str, t: int, at: At) -> str:
        long, _, short, _ = BURN[rule]
        long_ratio, short_ratio, _ = self.settings.burn[rule]
        off = rule in self.settings.off
        holds = at.ratio(long) >= long_ratio and at.ratio(short) >= short_ratio
        silent = self._silent(rule, t, at) or self._explained(rule, t, at)
        what = ""
        if not self._firing(rule):
            if at.over or silent or not self._opens(rule, at):
                return ""
            self._fire(rule, t)
            what = "opened"
        elif at.over:
            what = "ended"
        elif off:
            what = "off"
        elif silent:
            what = "outranked"
        elif rule in self.quiet:
            what = self._quiet(rule, t, at, again=self._opens(rule, at))
        elif at.undecided and not at.expected[short]:
            what = ""
        elif at.ratio(short) < Fraction(8, 10) * short_ratio and not self._stays(rule, t):
            what = "recovered"
        episode = self.episodes[rule]
        if holds and rule not in self.quiet:
            episode.held, episode.cost, episode.expected = t, at.accrued(long), at.expected[long]
            episode.elapsed, episode.short_ratio = at.elapsed[long], at.ratio(short)
        if what and what != "opened":
            episode.firing, episode.cleared = False, t
            self.quiet.pop(rule, None)
            self._remember(rule, what, t)
            return what
        raised = self._raise(rule, t, at)
        return what or raised

    def _raise(self, rule: str, t: int, at: At) -> str:
        """A burn is told anew when it is more urgent than it was in the episode so far."""
        episode, level = self.episodes[rule], self._level(rule, t, at)
        if rule in self.quiet or level <= episode.level:
            return ""
        if t > episode.started:
            episode.since = episode.since | dict.fromkeys(
                range(episode.level + 1, level + 1), t
            )  # others are told of it
        episode.level, episode.fired = level, t
        self.said[rule] = at.now_rate - at.expected_rate
        return "raised"

    def _remember(self, rule: str, what: str, t: int) -> None:
        """A burn that is over is forgotten; one that ended with its attempt may go on in the next one within a day."""
        if what == "recovered":
            self.known.clear()
        if what == "ended":
            episode = self.episodes[rule]
            since = {other for other, until in self.known.items() if episode.started < until}
            self.known |= dict.fromkeys(since | ({rule} if episode.level else set()), t + 24 * HOUR)

    def _level(self, rule: str, t: int, at: At) -> int:
        """How urgent a burn is by what it costs above the expected rate."""
        extra = at.now_rate - at.expected_rate
        level = 2 if rule in self.settings.pages else sum(extra >= each for each in self.settings.told)
        since = self.episodes[rule].started if self._firing(rule) else t
        goes_on = any(
            since < until and 2 * extra < 3 * self.said[other] for other, until in self.known.items()
        )
        return 0 if level == 1 and goes_on else level

    def _quiet(self, rule: str, t: int, at: At, *, again: bool) -> str:
        """A burn rule whose alert stays open although it did not hold: an hour counts in which no faster one does."""
        if any(self._opens(faster, at) for faster in list(BURN)[: list(BURN).index(rule)]):
            self.quiet[rule] = t
        if again:
            self._hold_again(rule, t)
        return "" if again or self._stays(rule, t) else "recovered"

    def _opens(self, rule: str, at: At) -> bool:
        long, _, short, _ = BURN[rule]
        long_ratio, short_ratio, least = self.settings.burn[rule]
        reached = at.ratio(long) >= long_ratio and at.ratio(short) >= short_ratio
        extra = at.accrued(long) - at.expected[long]
        return reached and rule not in self.settings.off and at.paid_whole[short] and extra >= least

    def _holds(self, rule: str, t: int, at: At) -> bool:
        settings = self.settings
        if rule == "runaway_length":
            late = t >= self.deadline + settings.grace or at.since_paid >= settings.longest
            return (at.paid_now or (self._stands(rule) and at.undecided)) and late and not self._told(t)
        if rule == "traffic":
            return not at.over and self._moves(at)
        return FACTS[rule] in at.facts

    def _told(self, t: int) -> bool:
        """Whether runaway length told of the job, which is not twice as old yet, nor late by another deadline."""
        last = self.episodes.get("runaway_length")
        if last is None or last.firing or last.again is None or t >= last.again:
            return False
        is_late_since = last.fired < self.deadline + self.settings.grace <= t
        return not is_late_since and t > (last.cleared or 0) + 10 * MINUTE

    def _fact(self, rule: str, t: int, at: At) -> str:
        off = rule in self.settings.off
        holds = self._stands(rule) if FACTS[rule] in at.unseen else self._holds(rule, t, at)
        if holds and not off:
            opens = not self._firing(rule)
            if opens:
                self._fire(rule, t)
                self.episodes[rule].again = t + at.since_paid
            elif rule in self.quiet:
                self._hold_again(rule, t)
            last = self.episodes[rule]
            last.held = t
            if FACTS[rule] > 4:
                last.cost, last.expected, last.elapsed = at.cost[0], at.expected[0], at.elapsed[0]
            if rule == "price_basis":
                last.cost, last.expected, last.elapsed = at.now_rate // 12, at.expected_rate // 12, 5 * MINUTE
            if rule == "traffic":
                last.cost, last.expected, last.elapsed = (
                    at.traffic[2],
                    max(at.cost[2] - at.traffic[2], 0),
                    HOUR,
                )
            return "opened" if opens else ""
        if self._firing(rule):
            last = self.episodes[rule]
            if rule not in self.quiet:
                # It held at the tick before this one, whether or not anybody looked.
                last.held = max(last.held, t - TICK_MS)
            if not off and not at.over and self._stays(rule, t):
                return ""
            last.firing, last.cleared = False, t
            last.again = None if holds else last.again
            self.quiet.pop(rule, None)
            return "off" if holds else "recovered"
        return ""

    def _fire(self, rule: str, t: int) -> None:
        last = self.episodes.get(rule)
        if last is None or last.cleared is None or t > last.cleared + 10 * MINUTE:
            self.episodes[rule] = last = Episode(started=t, cleared=last.cleared if last else None)
        last.firing, last.fired, last.held = True, t, t
        last.firings += 1
        self._opened(rule, t)

    def _hold_again(self, rule: str, t: int) -> None:
        """The condition holds again while the alert stayed open."""
        del self.quiet[rule]
        self._opened(rule, t)

    def _opened(self, rule: str, t: int) -> None:
        """More than three openings in three hours flap; those of the burn rules count together."""
        self.openings.setdefault(rule, []).append(t)
        openings = [
            each for other in (BURN if rule in BURN else (rule,)) for each in self.openings.get(other, ())
        ]
        self.flaps[rule] = sum(t < each + 3 * HOUR for each in openings) > 3
