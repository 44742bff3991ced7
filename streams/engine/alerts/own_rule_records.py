"""Rules of one's own by SQL, from the records of `controls`: the statement, how often it is asked, and how much what it finds matters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.refusal import shown
from schemas.wire_types import MAX_SQL_BYTES
from streams.engine.alerts.malformed import MalformedControlError, all_of, check_fields, refuse_any
from streams.engine.rules.rule import PAGE, SEVERITIES, TICKET

#: The name of the rule of an alert is this and the name of its record.
PREFIX: Final = "sql/"
#: Beyond every name that begins so.
PREFIX_END: Final = "sql0"
#: So many are judged, those with the smallest names.
AT_MOST: Final = 20
_FIELDS: Final = frozenset({"sql", "every", "severity", "enabled", "by", "comment"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_EVERY: Final = re.compile(r"([1-9]\d{0,3})(m|h|d)")
_UNITS_MS: Final = {"m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_LEAST_MS: Final = 5 * MINUTE_MS


class OwnRule(NamedTuple):
    """A rule by SQL; `sql` has `{from}` and `{to}`."""

    name: str
    sql: str
    every_ms: int
    severity: str

    @property
    def rule(self) -> str:
        """The name of its alerts' rule."""
        return PREFIX + self.name

    def statement(self, at_ms: int) -> str:
        """The statement for the span that ends at an instant."""
        return self.sql.replace("{from}", _instant(at_ms - self.every_ms)).replace("{to}", _instant(at_ms))

    def instants(self, since_ms: int, until_ms: int) -> range:
        """The instants of (since_ms, until_ms] at which it is judged."""
        return range((since_ms // self.every_ms + 1) * self.every_ms, until_ms + 1, self.every_ms)


def is_own_rule(value: Mapping[str, object]) -> bool:
    """Whether a record of the kind `rule` is one by SQL."""
    return value.get("sql") is not None


def own_rule_of(name: str, value: Mapping[str, object]) -> OwnRule | None:
    """The rule of a record; None: it is switched off.

    Raises:
        MalformedControlError: A field is invalid; the message names it, and what is allowed.
    """
    severity, enabled = value.get("severity", TICKET), value.get("enabled", True)
    _, sql, every_ms, _ = all_of(
        lambda: _check_name(name),
        lambda: _sql(value.get("sql")),
        lambda: _every_ms(value.get("every")),
        lambda: all_of(lambda: check_fields(value, _FIELDS), lambda: _check_switches(severity, enabled)),
    )
    return OwnRule(name, sql, every_ms, str(severity)) if enabled else None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise MalformedControlError(
            f"name: got {shown(name)}, expected up to 63 letters, digits and `_.-`, of a rule by SQL"
        )


def _check_switches(severity: object, enabled: object) -> None:
    details = []
    if severity not in SEVERITIES:
        details.append(f"severity: got {shown(severity)}, expected one of {PAGE}, {TICKET}")
    if not isinstance(enabled, bool):
        details.append(f"enabled: got {shown(enabled)}, expected true or false")
    refuse_any(details)


def _sql(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise MalformedControlError("sql: expected one statement that reads")
    if len(given.encode("utf-8", "surrogatepass")) > MAX_SQL_BYTES:
        raise MalformedControlError(f"sql: longer than {MAX_SQL_BYTES} bytes")
    refuse_any(
        f"sql: {name} is not in it; without it the same minutes would be looked at again and again"
        for name in ("{from}", "{to}")
        if name not in given
    )
    return given


def _every_ms(given: object) -> int:
    found = _EVERY.fullmatch(given) if isinstance(given, str) else None
    every_ms = 0 if found is None else int(found[1]) * _UNITS_MS[found[2]]
    if not _LEAST_MS <= every_ms <= DAY_MS or DAY_MS % every_ms:
        raise MalformedControlError(
            f"every: got {shown(given)}, expected a part of a day from 5m on, as 5m, 15m, 1h or 1d"
        )
    return every_ms


def _instant(at_ms: int) -> str:
    text = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"toDateTime64('{text}', 3, 'UTC')"
