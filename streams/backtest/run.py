"""Replays a log under given rules into a store that is thrown away, and reads what would have fired."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.backtest.fired import Backtest, Costs, CostSpan, FiredAlert, RuleFile
from streams.backtest.recorder import AlertRecorder
from streams.config.settings import Settings
from streams.errors import WrongUseError
from streams.notify.history import StoredDeliveries
from streams.notify.kind_figures import KindFigures
from streams.replay.replay import run_replay
from streams.replay.result import ReplayResult

_JOBS: Final = "SELECT job_id, wall_clock_ms FROM jobs FINAL"
_REFUSED: Final = "SELECT detail FROM dead_letters FINAL ORDER BY partition, offset LIMIT 1"
#: A minute counts in proportion to the part of it that lies in the span.
_COSTS: Final = """
SELECT s.place AS place, toString(sum(toDecimal128(m.cost_usd, 9) * (
    least(s.until_ms, toInt64(toUnixTimestamp(m.minute)) * 1000 + 60000)
    - greatest(s.from_ms, toInt64(toUnixTimestamp(m.minute)) * 1000)))) AS usd_ms
FROM (SELECT * FROM job_minutes FINAL PREWHERE job_id IN {jobs:Array(String)}) AS m
INNER JOIN (
    SELECT t.1 AS place, t.2 AS job_id, t.3 AS from_ms, t.4 AS until_ms
    FROM (SELECT arrayJoin(arrayZip(arrayEnumerate({jobs:Array(String)}), {jobs:Array(String)},
                                    {starts:Array(Int64)}, {ends:Array(Int64)})) AS t)
) AS s ON m.job_id = s.job_id
WHERE toInt64(toUnixTimestamp(m.minute)) * 1000 < s.until_ms
  AND toInt64(toUnixTimestamp(m.minute)) * 1000 + 60000 > s.from_ms
GROUP BY place
"""
_SPANS_AT_ONCE: Final = 200


class BacktestRun(NamedTuple):
    """The outcome, and what jobs cost in some spans: readable as long as the store is there."""

    backtest: Backtest
    costs: Costs


@contextmanager
def backtested(
    files: Sequence[Path],
    rules: RuleFile | None,
    settings: Settings,
    as_of_ms: int | None = None,
    advance: Callable[[int], None] | None = None,
    heard: Callable[[str, int, int], None] | None = None,
) -> Iterator[BacktestRun]:
    """Replay the files, accruing up to `as_of_ms` (ms since 1970 UTC); the store is removed when the context ends.

    Raises:
        WrongUseError: No line of the files is a record, or they speak of no job.
        TrainfareError: The files cannot be read, or the store cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="trainfare-backtest-") as directory:
        root = Path(directory)
        first: list[Path] = []
        if rules is not None and rules.lines:
            first = [root / "rules.jsonl"]
            first[0].write_bytes(b"".join(line + b"\n" for line in rules.lines))
        recorder = AlertRecorder()
        # Nothing depends on the number of shards, and each of them costs something at each tick of the log.
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"partitions": 1})})
        result = run_replay(
            [*first, *files],
            root / "data",
            as_of_ms,
            settings=settings,
            advance=advance,
            alert_sink=recorder,
            heard=heard,
        )
        store = ClickHouseStore(Embedded(data_dir=root / "data", database=settings.clickhouse.database))
        try:
            _check_useful(result, files, store, of_rules=len(rules.lines) if rules is not None else 0)
            name = "" if rules is None else rules.name
            alerts = recorder.episodes(StoredDeliveries(store), KindFigures(store))
            yield BacktestRun(_read(store, result, name, alerts), lambda spans: _costs(store, spans))
        finally:
            store.close()


def _check_useful(result: ReplayResult, files: Sequence[Path], store: ClickHouseStore, of_rules: int) -> None:
    names = ", ".join(map(str, files))
    if result.records_in - of_rules == result.dead_lettered and result.dead_lettered:
        detail = store.query(_REFUSED).to_pylist()[0]["detail"]
        raise WrongUseError(f"{names}: no line is a record of a log; the first one: {detail}")
    if not result.jobs:
        raise WrongUseError(f"{names}: speaks of no job, so nothing can be judged")


def _read(
    store: ClickHouseStore, result: ReplayResult, rules: str, alerts: tuple[FiredAlert, ...]
) -> Backtest:
    ran_ms = {row["job_id"]: int(row["wall_clock_ms"]) for row in store.query(_JOBS).to_pylist()}
    refused = result.dead_lettered + result.too_late
    return Backtest(rules, alerts, ran_ms, result.records_in, refused, result.failed_rules)


def _costs(store: ClickHouseStore, spans: Sequence[CostSpan]) -> dict[CostSpan, Decimal]:
    """What the job of each span cost in it, in dollars."""
    wanted = sorted(set(spans))
    found = dict.fromkeys(wanted, Decimal(0))
    for begin in range(0, len(wanted), _SPANS_AT_ONCE):
        part = wanted[begin : begin + _SPANS_AT_ONCE]
        columns = {
            "jobs": [span.job_id for span in part],
            "starts": [span.from_ms for span in part],
            "ends": [span.until_ms for span in part],
        }
        for row in store.query(_COSTS, columns).to_pylist():
            found[part[row["place"] - 1]] = Decimal(row["usd_ms"]) / MINUTE_MS
    return found
