"""Makes events of a record by the rules of a map. Pure: equal records give equal events, whoever reads them.

What a rule cannot make is a fault beside the events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.invalid import Invalid
from streams.collect.allocations import Allocations
from streams.collect.collector import CollectedEvent
from streams.collect.kafka.expressions import (
    Evaluation,
    EvaluationError,
    Expression,
    TooMuchWorkError,
    UnitError,
    compiled,
)
from streams.collect.kafka.faults import MappingError, got
from streams.collect.kafka.options import FieldMap, MapOptions, MapRule
from streams.collect.kafka.owned_samples import owned
from streams.collect.kafka.units import Conversion, conversion
from streams.topics import Topic

_ENTRIES_AT_MOST: Final = 1_000
_ID_BYTES: Final = 200
#: The meter judges by its own clock what is of the future; a verdict here must not depend on when a record is read.
_NOTHING: Final = object()
#: What jobs report before and in between: without one of these an attempt still begins and ends as the record says.
_IN_BETWEEN: Final = frozenset({"queued", "updated", "heartbeat", "checkpointed"})
_ENDS: Final = frozenset({"completed", "failed", "cancelled", "preempted"})


class Mapped(NamedTuple):
    """What became of a record."""

    events: list[CollectedEvent]
    faults: list[MappingError]


class _BrokenAttempt(NamedTuple):
    """An attempt as a record names it, of which an event cannot be made; without `job_id` it may be any of the record."""

    job_id: object
    attempt: object

    def has(self, event: CollectedEvent) -> bool:
        """Return whether an event is of it."""
        of = event.value.get("job_id")
        return of is not None and (
            self.job_id is None or (of, event.value.get("attempt", 1)) == (self.job_id, self.attempt)
        )


class RecordMap:
    """The rules of a map, compiled once."""

    def __init__(self, options: MapOptions) -> None:
        self._record_bytes = options.max_record_kib * 1024
        self._max_depth = options.max_depth
        self._rules: dict[str, list[_CompiledRule]] = {}
        for rule in options.rules:
            self._rules.setdefault(rule.topic, []).append(_CompiledRule(rule, options.source))

    def of_record(self, topic: str, value: bytes | None, held: Allocations | None = None) -> Mapped:
        """The events of a record of a topic; none for a tombstone.

        `held`: samples that name no job get the one that held their GPUs.
        """
        if value is None:
            return Mapped([], [])
        try:
            record = self._parsed(value)
        except MappingError as fault:
            return Mapped([], [fault])
        events: list[CollectedEvent] = []
        faults: list[MappingError] = []
        broken: list[_BrokenAttempt] = []
        evaluation = Evaluation()  # one for all rules: they share the work that a record may make
        for rule in self._rules[topic]:
            try:
                for made in rule.events(record, evaluation, broken):
                    if isinstance(made, MappingError):
                        faults.append(made)
                    else:
                        events.append(made)
            except MappingError as fault:
                faults.append(fault)
        for backwards in _backwards(events):
            where = f"job {backwards.job_id}, attempt {backwards.attempt}"
            faults.append(MappingError("out_of_range", where, "it ends before it begins"))
            broken.append(backwards)
        if broken:
            # An attempt that only begins, or only ends, would be metered wrongly until the map is mended.
            events = [event for event in events if not any(each.has(event) for each in broken)]
        return Mapped(events if held is None else list(owned(events, held)), faults)

    def _parsed(self, value: bytes) -> Any:
        if len(value) > self._record_bytes:
            raise MappingError(
                "oversize",
                "",
                f"got {len(value)} bytes, expected at most {self._record_bytes}; see max_record_kib",
            )
        try:
            record = orjson.loads(value)
        except ValueError as fault:
            raise MappingError("malformed_json", "", f"expected JSON: {fault}") from None
        if value.count(b"[") + value.count(b"{") > self._max_depth and _is_deeper(record, self._max_depth):
            raise MappingError(
                "malformed_json", "", f"expected at most {self._max_depth} levels of nesting; see max_depth"
            )
        return record


def _backwards(events: list[CollectedEvent]) -> list[_BrokenAttempt]:
    """The attempts that a record lets end before they begin: they would cost nothing."""
    begun: dict[tuple[object, object], int] = {}
    ended: dict[tuple[object, object], int] = {}
    for topic, value in events:
        if topic is Topic.JOBS and value["type"] not in _IN_BETWEEN:
            key = value["job_id"], value.get("attempt", 1)
            kept = ended if value["type"] in _ENDS else begun
            kept[key] = min(value["time_ms"], kept.get(key, value["time_ms"]))
    return [_BrokenAttempt(*key) for key, at_ms in ended.items() if at_ms < begun.get(key, at_ms)]


def _is_deeper(record: Any, levels: int) -> bool:
    layer = [record]
    for _ in range(levels):
        layer = [
            child
            for each in layer
            if isinstance(each, list | dict)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not layer:
            return False
    return any(isinstance(each, list | dict) for each in layer)


class _CompiledField:
    """One field of a rule."""

    def __init__(self, name: str, field: FieldMap) -> None:
        self._name = name
        self._expression = compiled(field.from_)
        self._convert: Conversion | None = None if field.unit is None else conversion(field.unit)
        self._values: Mapping[str, Any] | None = field.values
        self._otherwise = field.otherwise
        self._default = field.default

    def value(self, record: Any, evaluation: Evaluation, rule: str) -> Any:
        """The value of the field; None if it is absent.

        Raises:
            MappingError: It cannot be made.
        """
        where = f"rule `{rule}`, field `{self._name}`"
        found = _found(self._expression, record, evaluation, where)
        if found is None:
            return self._default
        if self._values is not None:
            found = self._in_table(found, where)
        if self._convert is not None:
            try:
                return self._convert(found)
            except ValueError as expected:
                raise MappingError("unit", where, got(found, str(expected))) from None
        if isinstance(found, dict):
            return {name: each for name, each in found.items() if each is not None}
        return found

    def _in_table(self, found: Any, where: str) -> Any:
        assert self._values is not None
        key = orjson.dumps(found).decode() if isinstance(found, bool | int | float) else found
        value = self._values.get(key, _NOTHING) if isinstance(key, str) else _NOTHING
        if value is _NOTHING:
            value = self._otherwise
        if value is None:
            listed = ", ".join(list(self._values)[:12])
            raise MappingError("value", where, got(found, f"one of `values`: {listed[:200]}"))
        return value


class _CompiledRule:
    def __init__(self, rule: MapRule, source: str) -> None:
        self._name = rule.name
        self._target: Topic = rule.target
        self._when = None if rule.when is None else compiled(rule.when)
        self._each = None if rule.each is None else compiled(rule.each)
        self._id = [compiled(text) for text in rule.id]
        self._constants = {"source": source, **rule.constants}
        self._fields = {name: _CompiledField(name, field) for name, field in rule.fields.items()}

    def events(
        self, record: Any, evaluation: Evaluation, broken: list[_BrokenAttempt]
    ) -> Iterator[CollectedEvent | MappingError]:
        """Yield what the rule makes of a record, and what it cannot make.

        Attempts whose begin or end cannot be made are added to `broken`.

        Raises:
            MappingError: The rest cannot be made.
        """
        for entry in self._entries(record, evaluation):
            try:
                if self._when is None or self._counts(self._when, entry, evaluation):
                    yield self._event(entry, evaluation)
            except MappingError as fault:
                if fault.reason == "too_much_work":
                    raise
                broken += self._broken(entry, evaluation)
                yield fault

    def _broken(self, entry: Any, evaluation: Evaluation) -> list[_BrokenAttempt]:
        """The attempt whose begin or end the rule could not make of an entry; none if that is no harm to others."""
        event_type = self._read("type", entry, evaluation)
        if self._target is not Topic.JOBS or (isinstance(event_type, str) and event_type in _IN_BETWEEN):
            return []
        job_id = self._read("job_id", entry, evaluation)
        if job_id is None and self._each is not None:
            return []  # one entry of many, and it does not say of which
        attempt = self._read("attempt", entry, evaluation)
        return [_BrokenAttempt(job_id, 1 if attempt is None else attempt)]

    def _read(self, name: str, entry: Any, evaluation: Evaluation) -> Any:
        """One field of the event; None where it cannot be made."""
        field = self._fields.get(name)
        try:
            return self._constants.get(name) if field is None else field.value(entry, evaluation, self._name)
        except MappingError:
            return None

    def _entries(self, record: Any, evaluation: Evaluation) -> list[Any]:
        if self._each is None:
            return [record]
        where = f"rule `{self._name}`, `each`"
        found = _found(self._each, record, evaluation, where)
        if found is None:
            return []
        if not isinstance(found, list) or len(found) > _ENTRIES_AT_MOST:
            raise MappingError("each", where, got(found, f"a list of at most {_ENTRIES_AT_MOST} entries"))
        return found

    def _counts(self, when: Expression, entry: Any, evaluation: Evaluation) -> bool:
        where = f"rule `{self._name}`, `when`"
        return _is_true(_found(when, entry, evaluation, where))

    def _event(self, entry: Any, evaluation: Evaluation) -> CollectedEvent:
        value = dict(self._constants)
        for name, field in self._fields.items():
            found = field.value(entry, evaluation, self._name)
            if found is not None:
                value[name] = found
        if self._id:
            value["id"] = self._event_id(entry, evaluation)
        try:
            text = orjson.dumps(value)
        except TypeError as fault:
            raise MappingError("value", f"rule `{self._name}`", f"no JSON: {fault}") from None
        verdict = decode(self._target, text, (), NEVER_MS)
        if isinstance(verdict, Invalid):
            raise MappingError(verdict.reason, f"rule `{self._name}`", verdict.detail)
        return CollectedEvent(self._target, value)

    def _event_id(self, entry: Any, evaluation: Evaluation) -> str:
        """The rule's name and the parts, so joined that different parts make different ids."""
        parts = [self._name]
        for number, expression in enumerate(self._id, 1):
            where = f"rule `{self._name}`, part {number} of `id`"
            part = _found(expression, entry, evaluation, where)
            if not isinstance(part, str | int | float):
                raise MappingError("id", where, got(part, "a text, a number or a boolean"))
            text = part if isinstance(part, str) else orjson.dumps(part).decode()
            parts.append(text.replace("%", "%25").replace("/", "%2F"))
        joined = "/".join(parts)
        if len(joined.encode()) <= _ID_BYTES:
            return joined
        return f"{self._name}/{hashlib.sha256(joined.encode()).hexdigest()}"


def _found(expression: Expression, record: Any, evaluation: Evaluation, where: str) -> Any:
    try:
        return evaluation.value(expression, record)
    except TooMuchWorkError as fault:
        raise MappingError("too_much_work", where, str(fault)) from None
    except UnitError as fault:
        raise MappingError("unit", where, str(fault)) from None
    except EvaluationError as fault:
        raise MappingError(
            "expression", where, f"{expression.text[:80]!r} cannot be put to it: {fault}"
        ) from None


def _is_true(found: Any) -> bool:
    """Whether JMESPath takes a value as true."""
    return not (found is None or found is False or found in ("", [], {}))
