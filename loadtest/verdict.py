"""Whether what is stored is what was sent: a fleet's known totals against the tables, job by job."""

from __future__ import annotations

from typing import Final

from loadtest.known import Known
from sinks.clickhouse import ClickHouseStore, Target

_SHOWN: Final = 10
_USAGE: Final = (
    "SELECT job_id, toInt64(sum(sampled_gpu_s)) AS sampled_gpu_s, toInt64(sum(productive_gpu_ms)) AS productive_gpu_ms "
    "FROM job_usage_minutes FINAL GROUP BY job_id"
)
_LEDGER: Final = (
    "SELECT job_id, toInt64(count()) AS ledger_rows, toInt64(sum(m.quantity)) AS quantity, "
    "toInt64(sum(cost_usd) * 1000000000) AS cost_nano FROM job_minutes AS m FINAL WHERE m.quantity != 0 GROUP BY job_id"
)
_DEAD: Final = "SELECT toInt64(count()) AS n FROM dead_letters FINAL"


class WrongTotalsError(Exception):
    """The meter's totals are not those of what was sent; a figure measured with them is worth nothing."""


def differences(target: Target, known: Known) -> list[str]:
    """One sentence for each job and figure that differs; the store must not be in use."""
    store = ClickHouseStore(target)
    try:
        found = _by_job(store, _USAGE)
        for job_id, row in _by_job(store, _LEDGER).items():
            found.setdefault(job_id, {}).update(row)
        dead = int(store.query(_DEAD).to_pylist()[0]["n"])
    finally:
        store.close()
    return compare(found, dead, known)


def compare(found: dict[str, dict[str, int]], dead_letters: int, known: Known) -> list[str]:
    """`found`: job -> figure -> value."""
    wrong = [] if dead_letters == 0 else [f"{dead_letters} dead letters, want none"]
    figures = ("sampled_gpu_s", "productive_gpu_ms", "ledger_rows", "quantity", "cost_nano")
    wanted = {name: getattr(known, name).tolist() for name in figures}
    for at, job_id in enumerate(known.jobs):
        row = found.get(job_id, {})
        wrong += [
            f"job {job_id}: {name} is {row.get(name, 0)}, want {wanted[name][at]}"
            for name in figures
            if row.get(name, 0) != wanted[name][at]
        ]
    wrong += [f"job {job_id} was never sent" for job_id in sorted(found.keys() - set(known.jobs))]
    return wrong


def check(target: Target, known: Known) -> None:
    """Raise WrongTotalsError, with the first differences, unless everything is equal."""
    wrong = differences(target, known)
    if wrong:
        shown = "\n  ".join(wrong[:_SHOWN])
        raise WrongTotalsError(f"{len(wrong)} totals in ClickHouse differ from what was sent:\n  {shown}")


def _by_job(store: ClickHouseStore, sql: str) -> dict[str, dict[str, int]]:
    return {
        str(row.pop("job_id")): {name: int(value) for name, value in row.items()}
        for row in store.query(sql).to_pylist()
    }
