"""SenseTime Helios (first 15,000 jobs of one cluster) as trace jobs.

The trace has no waiting times, so a job starts when it is submitted.
"""

from pathlib import Path

from loadtest.trace_files import TraceError, read_rows, whole
from loadtest.trace_jobs import TraceJob

BASE_MS = 1_585_699_200_000  # 2020-04-01T00:00:00Z
TEAMS = 8  # invented: the trace has users, but no teams
_ENDS = {"Pass": "completed", "Killed": "cancelled", "Failed": "failed"}
_COLUMNS = ("u_id", "user", "gpu_num", "cpu_num", "node_num", "interval", "run_time", "new_status")


def read_helios(path: Path) -> list[TraceJob]:
    """All jobs in order of submission."""
    jobs = []
    submit_s = 0
    for row in read_rows(path, _COLUMNS):
        submit_s += whole(row, "interval", path)
        start_ms = BASE_MS + submit_s * 1000
        gpus = whole(row, "gpu_num", path)
        user = whole(row, "user", path)
        if row["new_status"] not in _ENDS:
            raise TraceError(
                f"{path}: `new_status`: got {row['new_status']!r}, expected one of {list(_ENDS)}"
            )
        jobs.append(
            TraceJob(
                job_id=f"helios-{whole(row, 'u_id', path)}",
                source="helios",
                start_ms=start_ms,
                end_ms=start_ms + whole(row, "run_time", path) * 1000,
                end_type=_ENDS[row["new_status"]],
                gpu_milli=gpus * 1000,
                cpu_milli=whole(row, "cpu_num", path) * 1000,
                fields=_price_fields(gpus),
                node_count=max(1, whole(row, "node_num", path)),
                owner=f"user-{user}",
                team=f"team-{user % TEAMS}",
                labels={"node_num": row["node_num"]},
            )
        )
    return jobs


def _price_fields(gpus: int) -> dict[str, str]:
    kind = {"gpu_type": "V100"} if gpus else {"instance_type": "cpu"}
    return {"cluster": "venus", **kind, "purchase": "on_prem"}
