"""Owners' addresses, silences, planned rates, settings of rules, budgets and receipts, from the records of `controls`.

An invalid control is skipped and reported, and an invalid silence silences nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Final, NamedTuple

from schemas.checks import STORED_USD_LIMIT
from schemas.durations import DAY_MS, WEEK_MS
from schemas.events import ControlEvent
from schemas.refusal import shown
from schemas.units import usd_to_nano
from streams.engine.alerts.alert import Address, Alert
from streams.engine.alerts.budgets import MATCHED as BUDGET_MATCHED
from streams.engine.alerts.budgets import OVERRIDE_FIELDS, Budget, Override, budget_of, override_of
from streams.engine.alerts.budgets import OWN_FIELDS as BUDGET_FIELDS
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord, is_ledger_rule, ledger_rule_record_of
from streams.engine.alerts.malformed import (
    MalformedControlError,
    all_of,
    check_fields,
    refuse_any,
    unknown_match_field,
    with_match,
)
from streams.engine.alerts.matching import Matching, may_match
from streams.engine.alerts.operator_records import operator_owner
from streams.engine.alerts.own_rule_records import AT_MOST as OWN_RULES_AT_MOST
from streams.engine.alerts.own_rule_records import OwnRule, is_own_rule, own_rule_of
from streams.engine.alerts.planned import FOR_EVER_MS, FROM_EVER_MS, Planned, declared_by, spans
from streams.engine.alerts.possible import check_matched, check_silenced
from streams.engine.alerts.receipt_records import ReceiptRecord, receipt_record_of
from streams.engine.alerts.receiver_records import KINDS as RECEIVER_KINDS
from streams.engine.alerts.receiver_records import Escalation, ReceiverRecord, receiver_record_of
from streams.engine.alerts.recurrence import FIELDS as RECURRENCE_FIELDS
from streams.engine.alerts.recurrence import Recurrence, recurrence_of
from streams.engine.alerts.rule_records import LABEL, RuleRecord, facts_to_match, profile_of, rule_record_of
from streams.engine.alerts.rule_records import OWN_FIELDS as RULE_FIELDS
from streams.engine.rules.profiles import DEFAULT, Profile
from streams.engine.state.dimensions import MATCHED, AlertDimensions

_OWN_FIELDS: Final = frozenset({"from_ms", "until_ms", "by", "comment", "usd_per_hour", "match"})
_RECURRING_FIELDS: Final = _OWN_FIELDS | RECURRENCE_FIELDS
#: A planned rate that recurs is the same as so many that do not.
_RECURRING_AT_MOST_MS: Final = 366 * DAY_MS
_ALIASES: Final = {"job": "job_id"}
_OF_ALERTS: Final = ("rule", "severity")
_NO_RECEIVER: Final = ReceiverRecord()
_ACK_FIELDS: Final = frozenset({"alert_id", "until_ms", "by", "comment", "job_id", "team", "usd_per_hour"})
#: What the rate of an acknowledgement is of.
_ACKNOWLEDGED: Final = ("job_id", "team")


class Silence(NamedTuple):
    """Suppresses the delivery of matching alerts in [from_ms, until_ms), of one that recurs only at its hours."""

    name: str
    match: Mapping[str, str]
    from_ms: int
    until_ms: int
    recurrence: Recurrence | None = None

    def covers(self, at_ms: int) -> bool:
        """Whether it holds at an instant."""
        return self.from_ms <= at_ms < self.until_ms and (
            self.recurrence is None or self.recurrence.covers(at_ms)
        )

    def ends(self, after_ms: int, last_ms: int) -> Iterator[int]:
        """Yield the instants in (after_ms, last_ms] at which it ceases to hold."""
        if after_ms < self.until_ms <= last_ms:
            yield self.until_ms
        if self.recurrence is not None:
            for _, end_ms in self.recurrence.spans(after_ms, last_ms):
                if after_ms < end_ms <= last_ms and self.from_ms < end_ms <= self.until_ms:
                    yield end_ms


class ControlFault(NamedTuple):
    """A control, or a part of it, that has no effect, and why."""

    kind: str
    name: str
    detail: str


class Controls:
    """The controls in force. Immutable."""

    def __init__(
        self,
        receivers: Mapping[str, ReceiverRecord],
        silences: Iterable[Silence],
        planned: Iterable[Planned],
        faults: Iterable[ControlFault],
        budgets: Iterable[Budget] = (),
        overrides: Iterable[Override] = (),
        rules: Iterable[RuleRecord] = (),
        fleet_rules: Iterable[LedgerRuleRecord] = (),
        receipts: Iterable[ReceiptRecord] = (),
        operators: Mapping[str, str] | None = None,
        teams: Mapping[str, ReceiverRecord] | None = None,
        own_rules: Iterable[OwnRule] = (),
        team_rates: Iterable[Planned] = (),
    ) -> None:
        self._receivers = dict(receivers)
        self._teams = dict(teams or {})
        self.own_rules = tuple(own_rules)
        self.team_rates = tuple(team_rates)
        self.silences = tuple(silences)
        self._silences = Matching(((each.match, each) for each in self.silences), _Covered)
        self.planned = tuple(planned)
        self._planned = Matching(((each.match, each) for each in self.planned), tuple)
        self.faults = tuple(faults)
        self.budgets = tuple(budgets)
        self.overrides = tuple(overrides)
        self.rules = tuple(rules)
        self.fleet_rules = tuple(fleet_rules)
        self.receipts = tuple(receipts)
        self.operators = dict(operators or {})
        self._rules = Matching(((each.match, each) for each in self.rules), tuple)

    @classmethod
    def from_events(cls, events: Iterable[ControlEvent]) -> Controls:
        """Build the controls in force; of one kind and name the last in `events` (log order) counts."""
        receivers: dict[str, dict[str, ReceiverRecord]] = {kind: {} for kind in RECEIVER_KINDS}
        silences: list[Silence] = []
        planned: list[Planned] = []
        budgets: list[Budget] = []
        overrides: list[Override] = []
        rules: list[RuleRecord] = []
        fleet_rules: list[LedgerRuleRecord] = []
        receipts: list[ReceiptRecord] = []
        team_rates: list[Planned] = []
        own_rules: dict[str, OwnRule | None] = {}
        faults: list[ControlFault] = []
        standing = {(each.kind, each.name): each for each in events}.values()
        operators = _operators(standing, faults)
        for event in standing:
            try:
                if event.kind in RECEIVER_KINDS:
                    receivers[event.kind][event.name] = _receiver(event, faults)
                elif event.kind == "silence":
                    silences.append(_silence(event))
                elif event.kind == "planned":
                    planned += _planned(event)
                elif event.kind == "rule":
                    _add_rule(event, rules, fleet_rules, own_rules)
                elif event.kind == "budget":
                    budgets.append(_budget(event))
                elif event.kind == "override":
                    overrides.append(_override(event))
                elif event.kind == "ack":
                    rate_known = _acknowledged(event)
                    if rate_known is not None:
                        (planned if "job_id" in rate_known.match else team_rates).append(rate_known)
                elif event.kind == "receipt":
                    receipts.append(receipt_record_of(event.name, event.value, event.time_ms))
            except MalformedControlError as fault:
                faults += _each(event, fault)
        return cls(
            receivers["owner"],
            silences,
            planned,
            faults,
            budgets,
            overrides,
            rules,
            fleet_rules,
            receipts,
            operators,
            receivers["team"],
            _in_force(own_rules, faults),
            team_rates,
        )

    def is_alike_for_curves(self, other: Controls) -> bool:
        """Whether planned rates and settings of rules are the same: all that a job's curve and profile depend on."""
        return self.planned == other.planned and self.rules == other.rules

    def address_of(self, owner: str) -> tuple[Address, ...]:
        """The owner's addresses; empty if no control has any."""
        return self._receivers.get(owner, _NO_RECEIVER).addresses

    def address_of_team(self, team: str) -> tuple[Address, ...]:
        """The team's addresses; empty if no control has any."""
        return self._teams.get(team, _NO_RECEIVER).addresses

    def escalation_of(self, owner: str, team: str) -> Escalation | None:
        """To whom a page goes on that nobody acknowledges: as its owner's record says, else as its team's."""
        return (
            self._receivers.get(owner, _NO_RECEIVER).escalation
            or self._teams.get(team, _NO_RECEIVER).escalation
        )

    def planned_for(self, dimensions: AlertDimensions) -> tuple[tuple[int, int, int], ...]:
        """Return disjoint (from_ms, until_ms, nano-dollars per hour) in order; where plans overlap, the smallest name wins."""
        if not self.planned:
            return ()
        return spans(self.plans_of(dimensions))

    def plans_of(self, dimensions: AlertDimensions) -> list[Planned]:
        """The planned rates of a job, whenever they hold, those of an acknowledged ceiling included."""
        return list(chain.from_iterable(self._planned.of(dimensions._asdict())))

    def acknowledged_for(self, team: str, at_ms: int) -> int:
        """What somebody has acknowledged that a team pays, in nano-dollars per hour; 0: nothing."""
        return max(
            (
                each.nano_per_hour
                for each in self.team_rates
                if each.match["team"] == team and each.from_ms <= at_ms < each.until_ms
            ),
            default=0,
        )

    def profile_for(
        self, dimensions: AlertDimensions, labels: Iterable[tuple[str, str]] | None = None
    ) -> Profile:
        """The settings of all rules for a job with these labels."""
        matching = self.rules_for(dimensions, labels)
        return profile_of(matching) if matching else DEFAULT

    def rules_for(
        self, dimensions: AlertDimensions, labels: Iterable[tuple[str, str]] | None = None
    ) -> list[RuleRecord]:
        """The records of rules that match a job with these labels."""
        if not self.rules:
            return []
        return list(chain.from_iterable(self._rules.of(facts_to_match(dimensions._asdict(), labels))))

    def silenced(self, dimensions: AlertDimensions, rule: str, severity: str, at_ms: int) -> bool:
        """Whether a silence covers this alert at that instant."""
        facts = {**dimensions._asdict(), "rule": rule, "severity": severity}
        return any(covered.at(at_ms) for covered in self._silences.of(facts))

    def silence_ends(self, after_ms: int, last_ms: int) -> list[int]:
        """The instants in (after_ms, last_ms] at which a silence ceases to hold."""
        return sorted({end_ms for each in self.silences for end_ms in each.ends(after_ms, last_ms)})

    def may_silence(self, alert: Alert, at_ms: int) -> bool:
        """Whether a silence may cover a stored alert at an instant; fields that its row lacks may be what is asked."""
        facts = {
            "job_id": alert.subject_name if alert.subject_kind == "job" else "",
            **{name: getattr(alert, name) for name in ("owner", "team", "project", "rule", "severity")},
        }
        return any(each.covers(at_ms) and may_match(each.match, facts) for each in self.silences)


class _Covered:
    """The union of the intervals of silences."""

    def __init__(self, silences: Sequence[Silence]) -> None:
        self._recurring = [each for each in silences if each.recurrence is not None]
        self._from_ms: list[int] = []
        self._until_ms: list[int] = []  # of disjoint intervals, in order
        plain = (each for each in silences if each.recurrence is None)
        for silence in sorted(plain, key=lambda each: each.from_ms):
            if self._until_ms and silence.from_ms <= self._until_ms[-1]:
                self._until_ms[-1] = max(self._until_ms[-1], silence.until_ms)
            else:
                self._from_ms.append(silence.from_ms)
                self._until_ms.append(silence.until_ms)

    def at(self, at_ms: int) -> bool:
        """Whether any covers that instant."""
        place = bisect_right(self._from_ms, at_ms) - 1
        return (place >= 0 and at_ms < self._until_ms[place]) or any(
            each.covers(at_ms) for each in self._recurring
        )


NO_CONTROLS: Final = Controls({}, (), (), ())


def _match(
    value: Mapping[str, object],
    known: tuple[str, ...],
    own: frozenset[str] = _OWN_FIELDS,
    *,
    labels: bool = False,
) -> Mapping[str, str]:
    """The match fields.

    A control with an unknown field is malformed: without the field it would match everything.

    The error shows no value: it may be an address in the wrong place.
    """
    asked: dict[str, str] = {}
    inner = value.get("match")
    if not (inner is None or isinstance(inner, Mapping)):
        raise MalformedControlError("match: expected an object of match fields")
    outer = {field: wanted for field, wanted in value.items() if field not in own}
    faults: list[str] = []
    for fields in (outer, inner or {}):
        for given, wanted in fields.items():
            field = _ALIASES.get(given, given)
            if wanted is None:
                continue
            if field not in known and not (labels and field.startswith(LABEL)):
                faults.append(
                    unknown_match_field(given, known, (*_ALIASES, *sorted(own)), LABEL if labels else "")
                )
            elif not isinstance(wanted, str):
                faults.append(f"{given}: expected a string")
            elif asked.setdefault(field, wanted) != wanted:
                faults.append(f"{given}: asks for both one value and another")
    refuse_any(faults)
    return asked


def _match_of_jobs(
    value: Mapping[str, object], known: tuple[str, ...], own: frozenset[str], *, labels: bool = False
) -> Mapping[str, str]:
    """The match fields of a control about jobs."""
    found = _match(value, known, own, labels=labels)
    check_matched(found)
    return found


def _interval(value: Mapping[str, object]) -> tuple[int, int]:
    """Return [from_ms, until_ms); open where a bound is absent."""
    from_ms, until_ms = all_of(
        lambda: _instant(value, "from_ms", FROM_EVER_MS), lambda: _instant(value, "until_ms", FOR_EVER_MS)
    )
    if until_ms <= from_ms:
        raise MalformedControlError(f"until_ms: got {until_ms}, expected an instant after from_ms, {from_ms}")
    return from_ms, until_ms


def _each(event: ControlEvent, fault: MalformedControlError) -> Iterator[ControlFault]:
    return (ControlFault(event.kind, event.name, detail) for detail in fault.details)


def _silence(event: ControlEvent) -> Silence:
    value = event.value

    def match() -> Mapping[str, str]:
        found = _match(value, (*MATCHED, *_OF_ALERTS), _RECURRING_FIELDS)
        check_silenced(found)
        return found

    def made(match: Mapping[str, str]) -> Silence:
        (from_ms, until_ms), recurrence = all_of(lambda: _interval(value), lambda: recurrence_of(value))
        if recurrence is not None:
            _check_recurs(recurrence, from_ms, until_ms)
        return Silence(event.name, match, from_ms, until_ms, recurrence)

    return with_match(match, made)


def _planned(event: ControlEvent) -> list[Planned]:
    value = event.value

    def made(match: Mapping[str, str]) -> list[Planned]:
        rate, found = all_of(lambda: _rate(value), lambda: _planned_spans(value))
        return [Planned(event.name, match, *each, rate, declared_by(event)) for each in found]

    return with_match(lambda: _match_of_jobs(value, MATCHED, _RECURRING_FIELDS), made)


def _budget(event: ControlEvent) -> Budget:
    return with_match(
        lambda: _match_of_jobs(event.value, BUDGET_MATCHED, BUDGET_FIELDS),
        lambda match: budget_of(event.name, event.value, match),
    )


def _override(event: ControlEvent) -> Override:
    return with_match(
        lambda: _match_of_jobs(event.value, BUDGET_MATCHED, OVERRIDE_FIELDS),
        lambda match: override_of(event.name, event.value, match, lambda: _interval(event.value)),
    )


def _check_recurs(recurrence: Recurrence, from_ms: int, until_ms: int) -> None:
    """Check that it recurs within the interval."""
    if not any(True for _ in recurrence.spans(from_ms, min(until_ms - 1, from_ms + 2 * WEEK_MS))):
        raise MalformedControlError(f"hours: none of {recurrence.words} is between from_ms and until_ms")


def _planned_spans(value: Mapping[str, object]) -> list[tuple[int, int]]:
    """The spans [from_ms, until_ms) of a planned rate."""
    (from_ms, until_ms), recurrence = all_of(lambda: _interval(value), lambda: recurrence_of(value))
    if recurrence is None:
        return [(from_ms, until_ms)]
    _check_recurs(recurrence, from_ms, until_ms)
    if until_ms - from_ms > _RECURRING_AT_MOST_MS:
        raise MalformedControlError(
            "until_ms: a planned rate that recurs ends 366 days after its from_ms at most; set both"
        )
    return [
        (max(begin_ms, from_ms), min(end_ms, until_ms))
        for begin_ms, end_ms in recurrence.spans(from_ms, until_ms - 1)
    ]


def _instant(value: Mapping[str, object], field: str, absent_ms: int) -> int:
    given = value.get(field)
    if given is None:
        return absent_ms
    if not isinstance(given, int) or isinstance(given, bool) or not FROM_EVER_MS <= given <= FOR_EVER_MS:
        raise MalformedControlError(f"{field}: got {shown(given)}, expected an integer of ms since 1970")
    return given


def _rate(value: Mapping[str, object]) -> int:
    """Return nano-dollars per hour; a float, which may be a rounded quotient, is rounded half to even."""
    given = value.get("usd_per_hour")
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise MalformedControlError(
            f"usd_per_hour: got {shown(given)}, expected the planned dollars per hour"
        )
    try:
        text = given if isinstance(given, str) else f"{Decimal(repr(given)):.9f}"
        return usd_to_nano(text, STORED_USD_LIMIT)
    except ValueError as error:
        raise MalformedControlError(f"usd_per_hour: got {shown(given)}, {error}") from None


def _acknowledged(event: ControlEvent) -> Planned | None:
    """The rate that an acknowledgement is of, until it ends; None: it names none. It comes before plans: it is newer than what they say."""
    value = event.value
    _, until_ms = all_of(
        lambda: check_fields(value, _ACK_FIELDS), lambda: _instant(value, "until_ms", FOR_EVER_MS)
    )
    named = {field: value[field] for field in _ACKNOWLEDGED if value.get(field) is not None}
    if not named and value.get("usd_per_hour") is None:
        return None
    ((field, name),) = named.items() if len(named) == 1 else (("", None),)
    if not isinstance(name, str) or not name:
        raise MalformedControlError(
            f"{field or 'usd_per_hour'}: expected the rate of one job (`job_id`) or of one team (`team`)"
        )
    by = declared_by(event)
    return Planned(f"\0{event.name}", {field: name}, event.time_ms, until_ms, _rate(value), by)


def _operators(standing: Iterable[ControlEvent], faults: list[ControlFault]) -> dict[str, str]:
    """Who operates what: owners by the names of the records."""
    found: dict[str, str] = {}
    for event in standing:
        if event.kind == "operator":
            try:
                found[event.name] = operator_owner(event.name, event.value)
            except MalformedControlError as fault:
                faults += _each(event, fault)
    return found


def _add_rule(
    event: ControlEvent,
    rules: list[RuleRecord],
    fleet_rules: list[LedgerRuleRecord],
    own_rules: dict[str, OwnRule | None],
) -> None:
    if is_own_rule(event.value):
        own_rules[event.name] = own_rule_of(event.name, event.value)
        return

    def match() -> Mapping[str, str]:
        return _match_of_jobs(event.value, MATCHED, RULE_FIELDS, labels=True)

    if is_ledger_rule(event.name, event.value):
        fleet_rules.append(
            with_match(
                match, lambda found: ledger_rule_record_of(event.name, event.value, found, declared_by(event))
            )
        )
    else:
        rules.append(with_match(match, lambda found: rule_record_of(event.name, event.value, found)))


def _in_force(rules: Mapping[str, OwnRule | None], faults: list[ControlFault]) -> list[OwnRule]:
    """The rules by SQL that are judged."""
    found = [rule for _, rule in sorted(rules.items()) if rule is not None]
    faults += (
        ControlFault(
            "rule",
            rule.name,
            f"sql: {OWN_RULES_AT_MOST} rules by SQL are judged, those with the smallest names",
        )
        for rule in found[OWN_RULES_AT_MOST:]
    )
    return found[:OWN_RULES_AT_MOST]


def _receiver(event: ControlEvent, faults: list[ControlFault]) -> ReceiverRecord:
    found, details = receiver_record_of(event.value)
    faults += (ControlFault(event.kind, event.name, detail) for detail in details)
    return found
