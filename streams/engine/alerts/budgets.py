"""Budgets and overrides of their actions, from the fields of `controls` and of a job's own `budget`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, get_args

from schemas.checks import STORED_USD_LIMIT
from schemas.durations import HOUR_MS
from schemas.refusal import nearest, shown
from schemas.units import usd_to_nano
from schemas.wire_types import BudgetAction, BudgetPeriod
from streams.calendar import PERS, PLAIN, Calendar, zone_names
from streams.engine.alerts.malformed import MalformedControlError, all_of

MILLI: Final = 1_000
RUN: Final = "run"
TOTAL: Final = "total"
#: What a budget can match, the narrowest first: the first that it names is the subject of its alerts.
MATCHED: Final = ("job_id", "run_id", "experiment", "project", "team", "owner")
#: What the subject of a budget's alert is called, where that is not the field.
KINDS: Final = {"job_id": "job", "run_id": "run"}
#: The fields of a budget that match nothing.
OWN_FIELDS: Final = frozenset(
    {"usd", "gpu_hours", "wall_clock_hours", "per", "period", "action", "actions", "grace_s", "webhook"}
    | {"contact", "subject", "by", "comment", "match", "time_zone", "week_start", "year_start", "months"}
)
OVERRIDE_FIELDS: Final = frozenset({"budget", "reason", "from_ms", "until_ms", "by", "comment", "match"})
_ACTIONS: Final = get_args(BudgetAction)
_PERIODS: Final = get_args(BudgetPeriod)
#: The fields of a record that say where its periods begin, as a calendar has them.
_CALENDAR_FIELDS: Final = {
    "time_zone": "zone",
    "week_start": "week_start",
    "year_start": "year_start",
    "months": "months",
}
_LIMITS: Final = ("usd", "gpu_hours", "wall_clock_hours")
_RATIO_MAX: Final = 10.0
_GRACE_MAX_S: Final = 7 * 86_400
_AMOUNT_MAX_HOURS: Final = 2**53 // (HOUR_MS * MILLI)


class EscalationStep(NamedTuple):
    """One action of a budget, and the used share from which on it is requested."""

    action: str
    at_ratio: float = 1.0


@dataclass(frozen=True)
class Limits:
    """What may be used; None: not limited. GPU-time in thousandths of a GPU times ms."""

    usd_nano: int | None = None
    gpu_milli_ms: int | None = None
    wall_clock_ms: int | None = None


@dataclass(frozen=True)
class Budget:
    """What matching jobs may use, together or (per `run`) each training run of them."""

    name: str  # '': a job's own
    match: Mapping[str, str]
    per: str
    limits: Limits
    escalation_steps: tuple[EscalationStep, ...] = ()
    grace_ms: int | None = None  # between steps; None: that of the settings
    webhook: str | None = field(default=None, repr=False)  # of its actions; None: that of the settings
    contact: str = ""  # the owner who gets its alerts
    calendar: Calendar = PLAIN  # where its days, weeks and months begin

    @property
    def is_per_run(self) -> bool:
        """Whether each training run has it for itself."""
        return self.per == RUN

    @property
    def cycle(self) -> tuple[str, Calendar]:
        """Its kind of period."""
        return self.per, self.calendar


@dataclass(frozen=True)
class Override:
    """Suspends the actions of budgets for matching jobs in [from_ms, until_ms)."""

    name: str
    budget: str  # '': of all budgets
    match: Mapping[str, str]
    from_ms: int
    until_ms: int
    reason: str

    def covers(self, budget: str, facts: Mapping[str, str], at_ms: int) -> bool:
        """Whether it suspends this budget's actions on the job with these facts at that instant."""
        return (
            self.budget in ("", budget)
            and self.from_ms <= at_ms < self.until_ms
            and all(facts.get(name, "") == wanted for name, wanted in self.match.items())
        )


def budget_of(name: str, value: Mapping[str, object], match: Mapping[str, str]) -> Budget:
    """The budget of a control's fields; `match`: its match fields.

    Raises:
        MalformedControlError: A field is invalid, or it limits nothing.
    """
    (per, subject, calendar), limits, (steps, grace_ms), (webhook, contact) = all_of(
        lambda: all_of(lambda: _per(value), lambda: _subject(value), lambda: _calendar(value)),
        lambda: _limits(value),
        lambda: all_of(lambda: _escalation_steps(value), lambda: _grace_ms(value)),
        lambda: all_of(lambda: _text(value, "webhook"), lambda: _text(value, "contact")),
    )
    for kind, said in subject.items():
        if match.get(kind, said) != said:
            raise MalformedControlError(
                f"subject: {shown(said)}, and {kind} is {shown(match[kind])}: name it once"
            )
    return Budget(
        name, {**subject, **match}, per, limits, steps, grace_ms, webhook or None, contact, calendar
    )


def own_budget(fields: Mapping[str, str]) -> Budget | None:
    """A job's own budget, of the fields as they are stored; None if it limits nothing or cannot be read."""
    try:
        return budget_of("", {**fields, "per": RUN}, {}) if fields else None
    except MalformedControlError:
        return None


def override_of(
    name: str,
    value: Mapping[str, object],
    match: Mapping[str, str],
    interval: Callable[[], tuple[int, int]],
) -> Override:
    """The override of a control's fields; `interval`: of them, too.

    Raises:
        MalformedControlError: A field is invalid, or it has no reason.
    """
    (from_ms, until_ms), budget, reason = all_of(
        interval, lambda: _text(value, "budget"), lambda: _reason(value)
    )
    return Override(name, budget, match, from_ms, until_ms, reason)


def _reason(value: Mapping[str, object]) -> str:
    reason = _text(value, "reason")
    if not reason:
        raise MalformedControlError("reason: expected why the actions are suspended")
    return reason


def _per(value: Mapping[str, object]) -> str:
    per = value.get("per") or value.get("period") or TOTAL
    if per not in _PERIODS:
        raise MalformedControlError(f"per: got {shown(per)}, expected one of {', '.join(_PERIODS)}")
    if value.get("per") and value.get("period") and value["per"] != value["period"]:
        raise MalformedControlError("period: differs from `per`")
    return str(per)


def _calendar(value: Mapping[str, object]) -> Calendar:
    given = {name: value[name] for name in _CALENDAR_FIELDS if value.get(name) is not None}
    if not given:
        return PLAIN
    first = next(iter(given))
    if (value.get("per") or value.get("period")) not in PERS:
        raise MalformedControlError(f"{first}: it is that of a budget per {', '.join(PERS)}")
    for name, text in given.items():
        if not isinstance(text, str):
            raise MalformedControlError(f"{name}: expected a string")
    try:
        return Calendar(**{_CALENDAR_FIELDS[name]: str(text) for name, text in given.items()})
    except ValueError as wrong:
        of, _, expected = str(wrong).partition(": ")
        name = next(each for each, its in _CALENDAR_FIELDS.items() if its == of)
        near = nearest(given[name], sorted(zone_names())) if name == "time_zone" else ""
        raise MalformedControlError(f"{name}: got {shown(given[name])}, {expected}{near}") from None


def _limits(value: Mapping[str, object]) -> Limits:
    if all(value.get(name) is None for name in _LIMITS):
        raise MalformedControlError(f"{_LIMITS[0]}: expected at least one of {', '.join(_LIMITS)}")
    usd, gpu, wall = all_of(
        lambda: _decimal(value, "usd"),
        lambda: _decimal(value, "gpu_hours"),
        lambda: _decimal(value, "wall_clock_hours"),
    )
    try:
        nano = None if usd is None else usd_to_nano(f"{usd:.9f}", STORED_USD_LIMIT)
    except ValueError as error:
        raise MalformedControlError(f"usd: got {shown(value['usd'])}, {error}") from None
    return Limits(
        nano,
        None if gpu is None else round(gpu * HOUR_MS * MILLI),
        None if wall is None else round(wall * HOUR_MS),
    )


def _decimal(value: Mapping[str, object], name: str) -> Decimal | None:
    """A positive amount; a budget of nothing would be used up by nothing."""
    given = value.get(name)
    if given is None:
        return None
    most = STORED_USD_LIMIT if name == "usd" else _AMOUNT_MAX_HOURS
    try:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise InvalidOperation
        amount = Decimal(given if isinstance(given, str) else repr(given))
        if not (amount.is_finite() and 0 < amount < most):
            raise InvalidOperation
    except InvalidOperation:
        raise MalformedControlError(
            f"{name}: got {shown(given)}, expected a number above 0 and below {most}"
        ) from None
    return amount


def _escalation_steps(value: Mapping[str, object]) -> tuple[EscalationStep, ...]:
    """The escalation steps: names, or objects of `do` and `at`, in an array; or the one `action`."""
    given = value.get("actions")
    if given is None:
        one = value.get("action")
        given = [] if one is None else [one]
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise MalformedControlError("actions: expected an array of actions")
    found = _in_order([_escalation_step(each) for each in given])
    if len({step.action for step in found}) < len(found):
        raise MalformedControlError("actions: one is named twice")
    if [step.at_ratio for step in found] != sorted(step.at_ratio for step in found):
        raise MalformedControlError("actions: a later one begins at a smaller share")
    return found


def _in_order(steps: Sequence[tuple[str, float | None]]) -> tuple[EscalationStep, ...]:
    """The steps; one without a share has that of the step after it, 1 at most."""
    found, following = list[EscalationStep](), 1.0
    for action, at_ratio in reversed(steps):
        following = min(following, 1.0) if at_ratio is None else at_ratio
        found.append(EscalationStep(action, following))
    return tuple(reversed(found))


def _escalation_step(given: object) -> tuple[str, float | None]:
    action, at_ratio = given, None
    if isinstance(given, Mapping):
        if not given.keys() <= {"do", "at"}:
            raise MalformedControlError("actions: expected objects of `do` and `at`")
        action, ratio = given.get("do"), given.get("at")
        if ratio is not None:
            if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= _RATIO_MAX:
                raise MalformedControlError(f"actions: `at` must be above 0 and at most {_RATIO_MAX:g}")
            at_ratio = float(ratio)
    if action not in _ACTIONS:
        raise MalformedControlError(f"actions: expected {', '.join(_ACTIONS)}{nearest(action, _ACTIONS)}")
    return str(action), at_ratio


def _grace_ms(value: Mapping[str, object]) -> int | None:
    given = value.get("grace_s")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= _GRACE_MAX_S:
        raise MalformedControlError(f"grace_s: got {shown(given)}, expected seconds from 0 to {_GRACE_MAX_S}")
    return round(given * 1000)


def _subject(value: Mapping[str, object]) -> dict[str, str]:
    """The match field of the older form: `"subject": "team/vision"`, or an object of `kind` and `name`."""
    given = value.get("subject")
    if given is None:
        return {}
    if isinstance(given, Mapping):
        kind, name = given.get("kind"), given.get("name")
    elif isinstance(given, str):
        kind, _, name = given.replace(":", "/", 1).partition("/")
    else:
        kind = name = None
    kind = next((field for field, called in KINDS.items() if called == kind), kind)
    if kind not in MATCHED or not isinstance(name, str) or not name:
        raise MalformedControlError(f"subject: expected KIND/NAME, KIND one of {', '.join(MATCHED)}")
    return {str(kind): name}


def _text(value: Mapping[str, object], name: str) -> str:
    given = value.get(name)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise MalformedControlError(f"{name}: expected a string")
    return given.strip()
