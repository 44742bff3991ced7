"""Ten years of hours of a fleet of 10,000 GPUs: how large they are, and how fast they answer: `python -m loadtest.ten_years`.

The engine makes the rows, a month at a time: 1,250 nodes of 8 GPUs, 2,500 jobs at a time on 4 GPUs, each for two weeks.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import chdb

from loadtest.saying import say
from schemas.tables import JOB_HOURS, JOBS, NODE_HOURS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.errors import SinkError
from streams.costs.answer import cost_steps
from streams.costs.day_parts import answered
from streams.costs.request import request_of

FIRST_YEAR: Final = 2016
_NODES: Final = 1_250
_SLOTS: Final = 2_500
_LENGTH_H: Final = 14 * 24
_ROUNDS: Final = 3
_MEMORY_MIB: Final = (16, 32, 64, 128)
#: The job of a slot in an hour.
_JOB: Final = f"concat('job-', toString(n % {_SLOTS}), '-', toString(intDiv(h, {_LENGTH_H})))"
_JOB_HOURS: Final = f"""INSERT INTO {JOB_HOURS} (hour, job_id, attempt, cluster, gpu_type, instance_type, purchase, wall_clock_ms, gpu_milli_ms,
    sampled_gpu_ms, productive_gpu_ms, gpu_cost_usd, network_cost_usd, version)
WITH number AS n, intDiv(n, {_SLOTS}) AS at, toInt64(%(first_h)s) + at AS h
SELECT toDateTime(h * 3600, 'UTC'), {_JOB}, 1, concat('cluster-', toString(n %% 5)), 'H100', 'p5', if(n %% 3 = 0, 'spot', 'on_demand'), 3600000,
    14400000000, 14400000, 14400000 - rand() %% 9000000, toDecimal64(8 + n %% 7, 9), toDecimal64(rand() %% 1000000, 0) / 1000000000, 1
FROM numbers(%(hours)s * {_SLOTS}) SETTINGS max_threads = 1, max_insert_threads = 1""".replace(
    "n % ", "n %% "
)
_NODE_HOURS: Final = f"""INSERT INTO {NODE_HOURS} (hour, node, cluster, gpu_type, instance_type, paid_ms, gpu_milli_ms, cost_usd, version)
WITH number AS n, toInt64(%(first_h)s) + intDiv(n, {_NODES}) AS h
SELECT toDateTime(h * 3600, 'UTC'), concat('node-', toString(n %% {_NODES})), concat('cluster-', toString(n %% 5)), 'H100', 'p5', 3600000, 28800000000,
    toDecimal64(30, 9), 1
FROM numbers(%(hours)s * {_NODES}) SETTINGS max_threads = 1, max_insert_threads = 1"""
_JOBS: Final = f"""INSERT INTO {JOBS} (job_id, owner, team, project, state, attempts, gpu_count, version)
SELECT concat('job-', toString(number %% {_SLOTS}), '-', toString(intDiv(number, {_SLOTS}) + intDiv(%(first_h)s, {_LENGTH_H}))),
    concat('owner-', toString(number %% 400)), concat('team-', toString(number %% 40)), concat('project-', toString(number %% 200)), 'completed', 1, 4, 1
FROM numbers({_SLOTS} * (intDiv(%(hours)s, {_LENGTH_H}) + 2))"""


def months(years: int) -> Iterator[tuple[int, int]]:
    """Each month: its first hour since 1970, and how many it has."""
    first = [
        int(datetime(FIRST_YEAR + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()) // 3_600
        for month in range(12 * years + 1)
    ]
    for begin, end in itertools.pairwise(first):
        yield begin, end - begin


def fill(directory: Path, years: int) -> None:
    """Make the store, unless it is there."""
    done, target = directory / "done", Embedded(data_dir=directory)
    if done.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    ClickHouseStore(target).close()
    engine = chdb.connect(str(target.engine_dir))
    engine.query(f"USE `{target.database}`")
    every = list(months(years))
    first_h, hours = every[0][0], sum(each for _, each in every)
    engine.query(_JOBS % {"first_h": first_h, "hours": hours})
    for number, (begin, length) in enumerate(every, 1):
        for table, sql in ((JOB_HOURS, _JOB_HOURS), (NODE_HOURS, _NODE_HOURS)):
            engine.query(sql % {"first_h": begin, "hours": length})
            month = datetime.fromtimestamp(begin * 3_600, UTC).strftime("%Y%m")
            engine.query(f"OPTIMIZE TABLE {table} PARTITION {month} FINAL")
        if number % 12 == 0:
            say(f"{number // 12} years, {_cpu_s():.0f} s of CPU")
    engine.close()
    done.touch()


def asked(store: ClickHouseStore, given: Mapping[str, Sequence[str]], mib: int) -> int:
    """Ask for costs with so much memory for each statement; the number of rows.

    Raises:
        SinkError: It takes more.
    """

    def ask(sql: str, parameters: Any) -> QueryResult:
        return store.ask(f"{sql}\nSETTINGS max_memory_usage = {mib * 2**20}, max_threads = 1", parameters)

    return len(answered(cost_steps(request_of(given)), ask).rows)


def measured(store: ClickHouseStore, given: Mapping[str, Sequence[str]], rounds: int) -> str:
    """A line: rows, seconds by the clock and of CPU, and the least memory of the steps that is enough."""
    enough = 0
    for mib in _MEMORY_MIB:
        try:
            rows = asked(store, given, mib)
        except SinkError:
            continue
        enough = mib
        break
    if not enough:
        return f"more than {_MEMORY_MIB[-1]} MiB"
    wall, cpu = [], []
    for _ in range(rounds):
        began_s, used_s = time.perf_counter(), _cpu_s()
        asked(store, given, enough)
        wall.append(time.perf_counter() - began_s)
        cpu.append(_cpu_s() - used_s)
    return f"{rows:8,} rows{statistics.median(wall):8.2f} s{statistics.median(cpu):8.2f} s CPU, {enough} MiB"


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """Make, measure and print."""
    parser = argparse.ArgumentParser(prog="ten_years", description=__doc__)
    parser.add_argument("--years", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of each question")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(tempfile.gettempdir()) / "trainfare-ten-years",
        help="where it is kept",
    )
    options = parser.parse_args(argv)
    fill(options.store, options.years)
    with closing(ClickHouseStore(Embedded(data_dir=options.store))) as store:
        sizes = store.ask(
            "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() "
            f"AND table IN ('{JOB_HOURS}', '{NODE_HOURS}', '{JOBS}') GROUP BY table ORDER BY table",
            {},
        )
        for table, rows, size in sizes.rows():
            say(f"{table!s:12}{int(str(rows)):14,} rows {int(str(size)) / 2**30:7.2f} GiB")
        last = FIRST_YEAR + options.years - 1
        for name, given in (
            ("by team and month, all years", {"by": ["team"], "per": ["month"]}),
            ("by month, all years", {"per": ["month"]}),
            ("all", {}),
            ("by team and month, a year", {"by": ["team"], "per": ["month"], "from": [f"{last}-01-01"]}),
            ("by team and day, a year", {"by": ["team"], "per": ["day"], "from": [f"{last}-01-01"]}),
            ("by team and day, a month", {"by": ["team"], "per": ["day"], "from": [f"{last}-12-01"]}),
            (
                "m1 by team and month, a year",
                {"metric": ["m1"], "by": ["team"], "per": ["month"], "from": [f"{last}-01-01"]},
            ),
        ):
            say(f"{name:32}{measured(store, given, options.rounds)}   load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
