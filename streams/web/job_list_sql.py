"""The SQL of the list of jobs: searched, filtered, sorted and cut into pages by the store.

Whatever a client sends is bound as a parameter; the text is put together from parts that stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from schemas.reserved import USERS_JOBS
from schemas.unpriced_sql import unpriced_compute
from streams.web.queries import (
    IS_LIVE,
    MEANS,
    MINUTE_SINCE,
    OF_NOW,
    SETTINGS,
    WINDOWS,
    latest,
    mean_of,
    rate_of,
    spent_in,
    total_costs,
)

TOTALS: Final = ("cost_usd", "lost_cost_usd", "gpu_h", "unpriced_gpu_h")
#: From so many jobs on they are shown as one row.
SWEEP_LEAST: Final = 5
#: Jobs of a sweep whose alerts are named.
_SWEEP_FIRING: Final = 20
#: Nodes that are named beside a job that was found by them.
_NODES_NAMED: Final = 3

_FIRING: Final = "SELECT subject_name FROM alerts FINAL WHERE status = 'firing' AND subject_kind = 'job'"
_TEMPLATE: Final = "replaceRegexpAll(job_id, '[0-9]+', '#')"
#: What trials of one sweep have in common: their experiment, else their owner and their name but for its numbers. An id
#: that is all number has no such name.
_SWEEP: Final = f"""multiIf(
    experiment != '', concat('experiment:', team, '/', project, '/', experiment),
    match({_TEMPLATE}, '[^#._/: -]'), concat('name:', owner, '/', {_TEMPLATE}), '')"""
_SEARCHED: Final = "concat(job_id, '\\n', owner, '\\n', team, '\\n', project, '\\n', experiment, '\\n', state, '\\n', gpu_type)"


class JobOrder(NamedTuple):
    """A sort order: its keys, of jobs and of sweeps, the first one as is natural."""

    keys: tuple[tuple[str, str], ...]  # of a job, of the jobs of a sweep
    is_text: bool
    ascending: bool
    needs: frozenset[str] = frozenset()


def _number(key: str, of_sweep: str = "") -> tuple[str, str]:
    return f"toDecimal128({key}, 9)", f"toDecimal128({of_sweep or f'sum({key})'}, 9)"


def _by_text(*columns: str) -> JobOrder:
    keys = tuple((f"CAST({column}, 'String')", f"min(CAST({column}, 'String'))") for column in columns)
    return JobOrder(keys, is_text=True, ascending=True)


def _mean_of_jobs(name: str) -> str:
    """SQL for the mean of several jobs over one window."""
    return mean_of(f"sum(spent_{name})", name)


def _by_rate(window: str) -> JobOrder:
    if window in OF_NOW:
        return JobOrder((_number(window),), False, False, frozenset({"rates"}))
    return JobOrder((_number(window, _mean_of_jobs(window)),), False, False, frozenset({"rates", "spent"}))


_RATIO: Final = "if({expected} > 0, toFloat64({now}) / toFloat64({expected}), -1)"
_USE: Final = "if({sampled} > 0, toFloat64({productive}) / {sampled} / 1000, -1)"
ORDERS: Final[dict[str, JobOrder]] = {
    "burn": JobOrder(
        # Of rows that pay the same now, those before that paid lately: that is an order and no figure, so rates of jobs are added.
        (_number("usd_per_hour_now"), _number("usd_per_hour_1h"), _number("last_event_ms", "max(last_event_ms)")),
        False,
        False,
        frozenset({"rates"}),
    ),
    "job": _by_text("job_id"),
    "name": _by_text("job_id"),
    "owner": _by_text("owner", "team"),
    "team": _by_text("team", "owner"),
    "state": _by_text("state"),
    "gpus": JobOrder((_number("gpu_count"),), False, False),
    "burn_15m": _by_rate("usd_per_hour_15m"),
    "burn_1h": _by_rate("usd_per_hour_1h"),
    "expected": _by_rate("expected_usd_per_hour"),
    "ratio": JobOrder(
        (
            _number(
                _RATIO.format(now="usd_per_hour_now", expected="expected_usd_per_hour"),
                _RATIO.format(now="sum(usd_per_hour_now)", expected="sum(expected_usd_per_hour)"),
            ),
        ),
        False,
        False,
        frozenset({"rates"}),
    ),
    "cost": JobOrder((_number("cost_usd"),), False, False, frozenset({"cost"})),
    "use": JobOrder(
        (
            _number(
                _USE.format(sampled="sampled_s", productive="productive_ms"),
                _USE.format(sampled="sum(sampled_s)", productive="sum(productive_ms)"),
            ),
        ),
        False,
        False,
        frozenset({"use"}),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Which jobs: as the client asked, with its words one by one."""

    words: tuple[str, ...] = ()
    state: str = ""  # "live", "ended", or one of the states
    owner: str = ""
    team: str = ""
    project: str = ""
    experiment: str = ""
    sweep: str = ""
    is_firing: bool = False

    @property
    def parameters(self) -> dict[str, object]:
        """The values of the condition's parameters."""
        names = ("owner", "team", "project", "experiment", "sweep")
        found: dict[str, object] = {name: value for name in names if (value := getattr(self, name))}
        if self.state not in ("", "live", "ended"):
            found["state"] = self.state
        return found | {f"word{place}": word for place, word in enumerate(self.words)}

    @property
    def condition(self) -> str:
        """The condition on rows of `jobs`."""
        parts = [self.scope]
        parts += [
            f"{name} = {{{name}:String}}"
            for name in ("owner", "team", "project", "experiment")
            if getattr(self, name)
        ]
        if self.sweep:
            parts.append(f"({_SWEEP}) = {{sweep:String}}")
        if self.is_firing:
            parts.append(f"job_id IN ({_FIRING})")
        parts += [_has_word(place) for place in range(len(self.words))]
        return "\n  AND ".join(parts)

    @property
    def scope(self) -> str:
        """The part of it that says of how many jobs these are some."""
        if self.state == "live":
            return f"{USERS_JOBS} AND {IS_LIVE}"
        if self.state == "ended":
            return f"{USERS_JOBS} AND NOT {IS_LIVE}"
        return f"{USERS_JOBS} AND state = {{state:String}}" if self.state else USERS_JOBS


def _has_word(place: int) -> str:
    """SQL for whether a word stands in a job's names, or in those of its nodes of the last minutes or its firing rules."""
    word = f"{{word{place}:String}}"
    return f"""(positionCaseInsensitiveUTF8({_SEARCHED}, {word}) > 0
    OR job_id IN (SELECT job_id FROM job_minutes PREWHERE {MINUTE_SINCE} WHERE positionCaseInsensitiveUTF8(node, {word}) > 0)
    OR job_id IN ({_FIRING} AND positionCaseInsensitiveUTF8(rule, {word}) > 0))"""


def _use_of(condition: str) -> str:
    return f"""
SELECT job_id, sum(productive_gpu_ms) AS productive_ms, sum(sampled_gpu_s) AS sampled_s
FROM job_usage_minutes FINAL
PREWHERE minute >= toDateTime(intDiv({{used_since_ms:Int64}}, 1000), 'UTC') WHERE {condition} GROUP BY job_id"""


def _spent(condition: str) -> str:
    spent = ", ".join(f"{spent_in(name)} AS spent_{name}" for name in MEANS)
    since = (
        f"minute >= toDateTime(intDiv({{until_ms:Int64}}, 60000) * 60 - {60 * max(MEANS.values())}, 'UTC')"
    )
    return f"""
SELECT job_id, {spent} FROM job_minutes FINAL PREWHERE {since} WHERE quantity != 0 AND {condition} GROUP BY job_id"""


def _matched(selection: JobSelection, needs: frozenset[str], more: str = "") -> str:
    """SQL for one row a job, with what is needed of its rates, cost and use."""
    condition = selection.condition + more
    of_jobs = f"job_id IN (SELECT job_id FROM jobs FINAL WHERE {condition})"
    columns = [
        "j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.experiment AS experiment",
        "j.state AS state, j.gpu_type AS gpu_type, j.gpu_count AS gpu_count, j.started AS started",
        "toUnixTimestamp64Milli(j.last_event) AS last_event_ms, j.sweep AS sweep",
    ]
    joins = []
    if "rates" in needs:
        columns += [f"{rate_of(window)} AS {window}" for window in WINDOWS]
        rated = of_jobs if condition != selection.scope else USERS_JOBS
        joins.append(f"LEFT ANY JOIN ({latest(rated)}) AS b ON b.job_id = j.job_id")
    if "spent" in needs:
        columns.append(", ".join(f"s.spent_{name} AS spent_{name}" for name in MEANS))
        joins.append(f"LEFT ANY JOIN ({_spent(of_jobs)}) AS s ON s.job_id = j.job_id")
    if "cost" in needs:
        columns.append(", ".join(f"c.{name} AS {name}" for name in TOTALS))
        joins.append(f"LEFT ANY JOIN ({total_costs(of_jobs)}) AS c ON c.job_id = j.job_id")
    if "unpriced" in needs:
        columns.append("n.unpriced_compute_h AS unpriced_compute_h")
        joins.append(f"LEFT ANY JOIN ({unpriced_compute(of_jobs)}) AS n ON n.job_id = j.job_id")
    if "use" in needs:
        columns.append("u.productive_ms AS productive_ms, u.sampled_s AS sampled_s")
        joins.append(
            f"LEFT ANY JOIN ({_use_of(of_jobs if condition != selection.scope else USERS_JOBS)}) AS u ON u.job_id = j.job_id"
        )
    return f"""
SELECT {", ".join(columns)}
FROM (SELECT *, {_SWEEP} AS sweep FROM (
    SELECT job_id, owner, team, project, experiment, state, gpu_type, gpu_count, started, last_event FROM jobs FINAL
    WHERE {condition})) AS j
{" ".join(joins)}"""


def page(
    selection: JobSelection, order: str, *, ascending: bool, is_grouped: bool, cursor: str | None
) -> str:
    """SQL for the rows of one page, `name` and `is_sweep`, with their keys and how many rows there are.

    Args:
        selection: Which jobs.
        order: One of ORDERS.
        ascending: The direction.
        is_grouped: Whether sweeps are one row.
        cursor: "next": the page after the row of the parameters `at0`... and `at_name`; "previous": the one before it.
    """
    by = ORDERS[order]
    jobs = _matched(selection, by.needs if is_grouped else by.needs - {"spent"})
    if is_grouped:
        keys = ", ".join(f"{key} AS key{place}" for place, (_, key) in enumerate(by.keys))
        rows = f"""
SELECT if(trials >= {SWEEP_LEAST}, sweep, job_id) AS name, trials >= {SWEEP_LEAST} AS is_sweep, count() AS jobs, {keys}
FROM (SELECT *, if(sweep = '', 1, count() OVER (PARTITION BY sweep)) AS trials FROM ({jobs}))
GROUP BY name, is_sweep"""
    else:
        keys = ", ".join(f"{key} AS key{place}" for place, (key, _) in enumerate(by.keys))
        rows = f"SELECT job_id AS name, 0 AS is_sweep, 1 AS jobs, {keys} FROM ({jobs})"
    backwards = cursor == "previous"
    beyond = _beyond(by, ascending=ascending)
    before = (
        f"NOT ({beyond})" if cursor == "next" else f"NOT ({_beyond(by, ascending=ascending, or_at=True)})"
    )
    counted = "0" if cursor is None else f"countIf({before}) OVER ()"
    where = {None: "1", "next": beyond, "previous": before}[cursor]
    falling = ascending if backwards else not ascending
    names = [f"key{place}" for place in range(len(by.keys))]
    sorted_by = ", ".join(f"{key} {'DESC' if falling else 'ASC'}" for key in names)
    tie = "DESC" if backwards else "ASC"
    return f"""
SELECT *
FROM
(
    SELECT *, count() OVER () AS rows_matched, sum(jobs) OVER () AS jobs_matched, {counted} AS rows_before
    FROM ({rows})
)
WHERE {where} ORDER BY {sorted_by}, is_sweep {tie}, name {tie} LIMIT {{limit:UInt64}}
{SETTINGS}"""


def _beyond(by: JobOrder, *, ascending: bool, or_at: bool = False) -> str:
    """SQL for whether a row comes after that of the cursor, in the order of the list."""
    kind = "String" if by.is_text else "Decimal(38, 9)"
    keys = ", ".join(f"key{place}" for place in range(len(by.keys)))
    at = ", ".join(f"{{at{place}:{kind}}}" for place in range(len(by.keys)))
    if len(by.keys) == 1:
        keys, at = f"tuple({keys})", f"tuple({at})"
    else:
        keys, at = f"({keys})", f"({at})"
    than = ">" if ascending else "<"
    tie = ">=" if or_at else ">"
    return f"{keys} {than} {at} OR ({keys} = {at} AND (is_sweep, name) {tie} ({{at_sweep:UInt64}}, {{at_name:String}}))"


def total(selection: JobSelection) -> str:
    """SQL for how many jobs there are before words and filters choose among them."""
    return f"SELECT count() AS jobs FROM jobs FINAL WHERE {selection.scope} {SETTINGS}"


def sweeps(selection: JobSelection) -> str:
    """SQL for the figures of some sweeps, each of the jobs that were chosen."""
    needs = frozenset({"rates", "spent", "cost", "unpriced", "use"})
    jobs = _matched(selection, needs, f" AND ({_SWEEP}) IN {{sweeps:Array(String)}}")
    one = ", ".join(
        f"if(uniqExact({name}) = 1, any({name}), '') AS one_{name}"
        for name in ("owner", "team", "project", "experiment", "state", "gpu_type")
    )
    sums = ", ".join(
        [
            *(f"sum({name}) AS sum_{name}" for name in (*OF_NOW, *TOTALS)),
            *(f"{_mean_of_jobs(name)} AS sum_{name}" for name in MEANS),
        ]
    )
    return f"""
SELECT sweep, count() AS jobs, uniqExact(owner) AS owners, {one}, toFloat64(sum(gpu_count)) AS gpus, {sums},
       toUnixTimestamp64Milli(min(started)) AS started_ms, if(sum(sampled_s) > 0, toFloat64(sum(productive_ms)) / sum(sampled_s) / 1000, NULL) AS use,
       toFloat64(sum(unpriced_compute_h)) AS unpriced_compute_h, groupArrayIf({_SWEEP_FIRING})(job_id, job_id IN ({_FIRING})) AS firing
FROM ({jobs}) GROUP BY sweep
{SETTINGS}"""


def nodes(words: int) -> str:
    """SQL for the nodes of the last minutes, of some jobs, that have one of the words in their names."""
    found = " OR ".join(
        f"positionCaseInsensitiveUTF8(node, {{word{place}:String}}) > 0" for place in range(words)
    )
    return f"""
SELECT job_id, arraySort(groupUniqArray({_NODES_NAMED})(node)) AS nodes
FROM job_minutes PREWHERE job_id IN {{jobs:Array(String)}} AND {MINUTE_SINCE} WHERE {found} GROUP BY job_id
{SETTINGS}"""
