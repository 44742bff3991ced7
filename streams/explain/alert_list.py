"""The history of alerts: which of them are asked for, newest first, in pages, each with what became of its message.

The alerts of jobs that share a cause with an incident, or with a price, are the members of that alert: folded they are one row with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemas.durations import DATETIME_END_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from streams.engine.alerts.titles import TITLES
from streams.engine.ledger_rules.incidents import EXPLAINED_MS
from streams.engine.rules.incident import CLUSTER, RUN, STOOD_TOGETHER_MS, TOGETHER_MS
from streams.engine.rules.incident import RULE as INCIDENT
from streams.engine.rules.rule import URGENCY
from streams.engine.rules.shared_cause import STANDSTILL_RULES
from streams.engine.state.dimensions import MATCHED
from streams.errors import WrongUseError

STATUSES: Final = ("firing", "resolved")
ORDERS: Final = ("changed", "started")
PLANNED: Final = "planned"
#: What became of the message of an alert; the last one is of those that a planned rate covers, whatever became of theirs.
MESSAGES: Final = (
    "sent",
    "waiting",
    "failed",
    "nobody",
    "silenced",
    "inhibited",
    "incident",
    "digest",
    "usual",
    "superseded",
    "none",
    PLANNED,
)
LIMIT_MAX: Final = 1_000
TEXT_MAX_BYTES: Final = 512
_WORDS_MAX: Final = 8
_TEXTS: Final = ("rule", "owner", "team", "kind", "subject", "part_of", "text")
#: Parameters of a request beside `limit`.
PARAMETERS: Final = (
    "status",
    "severity",
    "message",
    "order",
    "before",
    "folded",
    "from_ms",
    "to_ms",
    *_TEXTS,
)
_CURSOR: Final = re.compile(r"(\d{1,15})-(.{1,200})", re.ASCII | re.DOTALL)
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_UNITS_MS: Final = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}


@dataclass(frozen=True)
class AlertsAsked:
    """Which alerts: all that are given must hold; '' and None: whatever it is.

    `subject` may be its name, or a part of it before `*`; `text` is looked for in names, ids and sentences, word by word. [from_ms,
    to_ms) is the time in which it fired for a while. `part_of`: the members of this alert alone. `before`: the page behind this one.
    """

    status: str = ""
    severity: str = ""
    message: str = ""
    rule: str = ""
    owner: str = ""
    team: str = ""
    kind: str = ""
    subject: str = ""
    text: str = ""
    part_of: str = ""
    from_ms: int = 0
    to_ms: int = DATETIME_END_MS
    folded: bool = False
    order: str = "changed"
    before: str = ""
    limit: int = 100

    def sql(self) -> str:
        """The rows of one page: `alert_id`, `at_ms` by which they are in order, `matched`, how many alerts of it are asked for."""
        return f"""
SELECT row_id AS alert_id, matched, toUnixTimestamp64Milli(row_at) AS at_ms
FROM ({self._matched()})
WHERE row_at < {_BEFORE} OR (row_at = {_BEFORE} AND row_id > {{before_id:String}})
ORDER BY row_at DESC, row_id LIMIT {{limit:UInt64}}"""

    def count_sql(self) -> str:
        """How many rows all pages have together, and how many alerts."""
        return f"SELECT count() AS rows, sum(matched) AS alerts FROM ({self._matched()})"

    def parameters(self) -> dict[str, object]:
        """What the statement refers to."""
        return _named(self.sql(), {**self._values(), **self._place(), "limit": self.limit})

    def count_parameters(self) -> dict[str, object]:
        """What the statement of the count refers to."""
        return _named(self.count_sql(), self._values())

    def _values(self) -> dict[str, object]:
        names = ("status", "severity", "message", *(name for name in _TEXTS if name != "text"))
        return {
            **{name: getattr(self, name) for name in names},
            "words": self.text.split()[:_WORDS_MAX],
            "rules": [*TITLES],
            "titles": [*TITLES.values()],
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
        }

    def next(self, row: Mapping[str, Any]) -> str:
        """Where the page behind a row begins."""
        return f"{row['at_ms']}-{row['alert_id']}"

    def _place(self) -> dict[str, object]:
        if not self.before:
            return {"before_ms": DATETIME_END_MS, "before_id": ""}
        found = _CURSOR.fullmatch(self.before)
        if found is None:
            raise WrongUseError(
                f"before: got {self.before[:80]!r}, expected `before` of the answer of another page"
            )
        return {"before_ms": int(found[1]), "before_id": found[2]}

    def _matched(self) -> str:
        """One row for each alert, or for all members of one: `row_id`, `matched`, `row_at`."""
        is_folded = self.folded and not self.part_of
        conditions, joined = [_CONDITIONS], ""
        if self.message == PLANNED:
            conditions.append(f"a.alert_id IN ({_PLANNED})")
        elif self.message:
            joined = f"LEFT ANY JOIN ({_OUTCOMES} GROUP BY alert_id) AS d ON d.alert_id = a.alert_id"
            conditions.append(f"{_MESSAGE} = {{message:String}}")
        if self.part_of:
            conditions.append("a.is_member AND a.head = {part_of:String}")
        prefix = "a.head_" if is_folded else "a."
        return f"""
SELECT row_id, count() AS matched, any(at) AS row_at
FROM
(
    SELECT {"a.head" if is_folded else "a.alert_id"} AS row_id, {prefix}{self.order} AS at
    FROM ({_WITH_HEADS}) AS a
    {joined}
    WHERE {" AND ".join(conditions)}
)
GROUP BY row_id"""


def alerts_asked(given: Mapping[str, str], limit: int = 100) -> AlertsAsked:
    """What the parameters of a request ask for.

    Raises:
        WrongUseError: One has a value that it cannot have.
    """
    choices: dict[str, Sequence[str]] = {
        "status": STATUSES,
        "severity": URGENCY,
        "message": MESSAGES,
        "order": ORDERS,
    }
    for name, allowed in choices.items():
        if given.get(name) and given[name] not in allowed:
            raise WrongUseError(f"{name}: got {given[name][:80]!r}, expected one of {', '.join(allowed)}")
    for name in _TEXTS:
        if len(given.get(name, "").encode(errors="surrogatepass")) > TEXT_MAX_BYTES:
            raise WrongUseError(f"{name}: over {TEXT_MAX_BYTES} bytes")
    if given.get("folded", "0") not in ("", "0", "1"):
        raise WrongUseError(f"folded: got {given['folded'][:80]!r}, expected 0 or 1")
    asked = AlertsAsked(
        **{name: given.get(name, "") for name in ("status", "severity", "message", "before", *_TEXTS)},
        from_ms=_instant("from_ms", given.get("from_ms"), 0),
        to_ms=_instant("to_ms", given.get("to_ms"), DATETIME_END_MS),
        folded=given.get("folded") == "1",
        order=given.get("order") or "changed",
        limit=limit,
    )
    asked.parameters()
    return asked


def settled(sql: str) -> str:
    """The statement with the limits of a page's figures."""
    return f"{sql}\nSETTINGS final = 0, max_execution_time = 30"


def ago_ms(text: str, now_ms: int, option: str) -> int:
    """The instant so long ago.

    Raises:
        WrongUseError: It is no length of time.
    """
    return max(0, now_ms - length_ms(text, option))


def length_ms(text: str, option: str) -> int:
    """A length of time: `90m`, `12h`, `2d`, `1w`.

    Raises:
        WrongUseError: It is none.
    """
    found = _AGO.fullmatch(text)
    if found is None:
        raise WrongUseError(f"{option} {text[:80]}: expected a length of time such as 90m, 12h, 2d, 1w")
    return int(found[1]) * _UNITS_MS[found[2]]


def _named(sql: str, values: Mapping[str, object]) -> dict[str, object]:
    """Those of the values that a statement refers to: one that it does not know is refused."""
    return {name: value for name, value in values.items() if f"{{{name}:" in sql}


def _instant(name: str, given: str | None, otherwise: int) -> int:
    if not given:
        return otherwise
    if not given.isascii() or not given.isdecimal() or int(given[:16]) > DATETIME_END_MS:
        raise WrongUseError(f"{name}: got {given[:80]!r}, expected milliseconds since 1970")
    return int(given)


_BEFORE: Final = "fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC')"
# An incident tells of what began from just before it until it ends, a price of what began within a day: as `SharedCauseRow.tells_of`.
_TELLERS: Final = f"""
SELECT alert_id, shared_cause, subject_kind, subject_name, owner, started, changed, stood_since,
    started - INTERVAL {TOGETHER_MS} MILLISECOND AS tells_from,
    if(rule = '{INCIDENT.name}', ifNull(resolved, toDateTime64('2100-01-01', 3, 'UTC')),
       started + INTERVAL {EXPLAINED_MS + 1} MILLISECOND) AS tells_until
FROM alerts FINAL WHERE subject_kind != 'job' AND shared_cause != ''"""
_COPIED: Final = (
    "alert_id", "rule", "severity", "status", "subject_kind", "subject_name", "owner", "team", "project", "summary", "silenced",
    "started", "resolved", "changed", "opened_usd_per_hour",
)  # fmt: skip
_STAND: Final = ", ".join(f"'{rule}'" for rule in STANDSTILL_RULES)
# Whoever stands still is a member of the incident of the job's cluster, if there is one since that time, else of what its own cause has.
_WITH_CLUSTERS: Final = f"""
SELECT {", ".join(f"b.{name} AS {name}" for name in _COPIED)}, b.shared_cause AS cause,
    c.alert_id != '' AND b.stood_since <= c.stood_since + INTERVAL {STOOD_TOGETHER_MS} MILLISECOND AND b.started < c.tells_until AS is_of_cluster,
    c.alert_id AS of_cluster, c.started AS cluster_started, c.changed AS cluster_changed
FROM
(
    SELECT x.* EXCEPT stood_since, ifNull(x.stood_since, toDateTime64(0, 3, 'UTC')) AS stood_since,
        if(x.subject_kind = 'job' AND x.rule IN ({_STAND}), j.cluster, '') AS in_cluster
    FROM (SELECT {", ".join(_COPIED)}, shared_cause, stood_since FROM alerts FINAL) AS x
    LEFT ANY JOIN
    (
        SELECT job_id, cluster FROM jobs FINAL
        WHERE job_id IN (SELECT subject_name FROM alerts WHERE rule IN ({_STAND}) AND subject_kind = 'job')
    ) AS j ON j.job_id = x.subject_name
) AS b
ASOF LEFT JOIN
(
    SELECT * EXCEPT stood_since, assumeNotNull(stood_since) AS stood_since,
        stood_since - INTERVAL {STOOD_TOGETHER_MS} MILLISECOND AS stood_from
    FROM ({_TELLERS} AND subject_kind = '{CLUSTER}' AND stood_since IS NOT NULL)
) AS c ON c.subject_name = b.in_cluster AND b.stood_since >= c.stood_from"""
#: Each alert with its head: the one that it is a member of, or itself.
_WITH_HEADS: Final = f"""
SELECT {", ".join(f"a.{name} AS {name}" for name in _COPIED)},
    a.subject_kind = 'job' AND a.cause != '' AND t.alert_id != '' AND a.started < t.tells_until
        AND (t.subject_kind != '{RUN}' OR t.owner = a.owner) AS shares,
    a.is_of_cluster OR shares AS is_member,
    multiIf(a.is_of_cluster, a.of_cluster, shares, t.alert_id, a.alert_id) AS head,
    multiIf(a.is_of_cluster, a.cluster_started, shares, t.started, a.started) AS head_started,
    multiIf(a.is_of_cluster, a.cluster_changed, shares, t.changed, a.changed) AS head_changed
FROM ({_WITH_CLUSTERS}) AS a
ASOF LEFT JOIN ({_TELLERS}) AS t ON t.shared_cause = a.cause AND a.started >= t.tells_from"""
_CONDITIONS: Final = """({status:String} = '' OR a.status = {status:String})
  AND ({severity:String} = '' OR a.severity = {severity:String})
  AND ({rule:String} = '' OR a.rule = {rule:String})
  AND ({owner:String} = '' OR a.owner = {owner:String})
  AND ({team:String} = '' OR a.team = {team:String})
  AND ({kind:String} = '' OR a.subject_kind = {kind:String})
  AND ({subject:String} = '' OR a.subject_name = {subject:String}
       OR (endsWith({subject:String}, '*') AND startsWith(a.subject_name, substring({subject:String}, 1, length({subject:String}) - 1))))
  AND a.started < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
  AND (a.resolved IS NULL OR a.resolved >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC'))
  AND arrayAll(word -> positionCaseInsensitiveUTF8(concat(a.alert_id, '\\n', a.rule, '\\n',
      transform(a.rule, {rules:Array(String)}, {titles:Array(String)}, ''), '\\n', a.subject_kind, '\\n', a.subject_name, '\\n',
      a.owner, '\\n', a.team, '\\n', a.project, '\\n', a.summary), word) > 0, {words:Array(String)})"""
_OUTCOMES: Final = """
SELECT alert_id, argMax(outcome, (time, attempt)) AS newest, countIf(outcome IN ('delivered', 'repeated')) > 0 AS is_sent
FROM deliveries FINAL"""
#: One of `MESSAGES`: of an alert `a` and what is stored of its messages `d`.
_MESSAGE: Final = """multiIf(
    d.is_sent, 'sent',
    d.newest = '', multiIf(a.silenced, 'silenced', a.severity = 'digest', 'digest', a.status = 'firing', 'waiting', 'none'),
    d.newest = 'retrying', 'waiting',
    d.newest IN ('failed', 'refused', 'unsupported'), 'failed',
    d.newest = 'no_receiver', 'nobody',
    d.newest = 'in_incident', 'incident',
    d.newest)"""
#: Some alerts, as a list in the terminal shows them.
ROWS: Final = """
SELECT alert_id, rule, severity, status, subject_kind, subject_name, owner, team, project, toUnixTimestamp64Milli(started) AS started_ms,
    toUnixTimestamp64Milli(resolved) AS resolved_ms, ratio, usd_per_hour, cost_usd, summary, shared_cause
FROM alerts FINAL WHERE alert_id IN {alerts:Array(String)}"""
#: What became of the messages of some alerts.
MESSAGES_OF: Final = f"""
SELECT a.alert_id AS alert_id, {_MESSAGE} AS message
FROM (SELECT alert_id, silenced, severity, status FROM alerts FINAL WHERE alert_id IN {{alerts:Array(String)}}) AS a
LEFT ANY JOIN ({_OUTCOMES} WHERE alert_id IN {{alerts:Array(String)}} GROUP BY alert_id) AS d ON d.alert_id = a.alert_id"""
#: The members of some alerts: how many there are, of how many jobs, what these paid when it began for each.
MEMBERS: Final = f"""
SELECT head, sum(alerts) AS alerts, count() AS jobs, sum(firing) AS firing, sum(usd) AS usd_per_hour
FROM
(
    SELECT head, subject_name, count() AS alerts, countIf(status = 'firing') AS firing, max(opened_usd_per_hour) AS usd
    FROM ({_WITH_HEADS}) WHERE is_member AND head IN {{alerts:Array(String)}} GROUP BY head, subject_name
)
GROUP BY head"""
#: The alert that tells of one; itself where it is no member.
HEAD_OF: Final = f"SELECT head FROM ({_WITH_HEADS}) WHERE alert_id = {{alert:String}}"
#: The rules, owners and teams that there are alerts of, for a choice.
NAMES: Final = """
SELECT arraySort(groupUniqArray(500)(rule)) AS rules, arraySort(groupUniqArray(500)(owner)) AS owners,
    arraySort(groupUniqArray(500)(team)) AS teams
FROM alerts"""
_OF_ALERT: Final = {"job_id": "b.subject_name", "owner": "b.owner", "team": "b.team", "project": "b.project"}
_OF_ATTEMPT: Final = {"zone": "n.newest.1", "account": "n.newest.2"}
_FACTS: Final = ", ".join(
    f"'{name}', {_OF_ALERT.get(name) or _OF_ATTEMPT.get(name) or f'j.{name}'}" for name in MATCHED
)
#: Alerts of jobs that a planned rate is for which was in force while they fired.
_PLANNED: Final = f"""
SELECT b.alert_id
FROM (SELECT alert_id, subject_name, owner, team, project, started, resolved FROM alerts FINAL WHERE subject_kind = 'job') AS b
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = b.subject_name
LEFT ANY JOIN (SELECT job_id, argMax((zone, account), attempt) AS newest FROM attempts FINAL GROUP BY job_id) AS n ON n.job_id = b.subject_name
CROSS JOIN
(
    SELECT match, begins, until
    FROM (SELECT * FROM controls FINAL WHERE kind = 'planned' ORDER BY offset DESC LIMIT 1 BY name)
    WHERE NOT removed AND fault = ''
) AS p
WHERE (p.begins IS NULL OR b.resolved IS NULL OR p.begins < b.resolved) AND (p.until IS NULL OR p.until > b.started)
  AND arrayAll((field, wanted) -> map({_FACTS})[field] = wanted, mapKeys(p.match), mapValues(p.match))"""
