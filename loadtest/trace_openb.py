"""Alibaba's openb GPU cluster trace of 2023 (shares of GPUs, pods that never ran) as trace jobs."""

from pathlib import Path

from loadtest.trace_files import TraceError, read_rows, whole
from loadtest.trace_jobs import TraceJob

BASE_MS = 1_672_531_200_000  # 2023-01-01T00:00:00Z, an assumption: the trace has no absolute clock
END_S = 12_902_960  # pods deleted at this very second were still running when the trace ended
AS_OF_MS = BASE_MS + END_S * 1000
# A pod that was last seen running and then deleted was taken away by its owner.
_ENDS = {"Running": "cancelled", "Succeeded": "completed", "Failed": "failed", "Pending": "cancelled"}
_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


def read_openb(path: Path) -> list[TraceJob]:
    """All pods in the file's order."""
    jobs = []
    for row in read_rows(path, _COLUMNS):
        if row["pod_phase"] not in _ENDS:
            raise TraceError(f"{path}: `pod_phase`: got {row['pod_phase']!r}, expected one of {list(_ENDS)}")
        gpu_milli = whole(row, "num_gpu", path) * whole(row, "gpu_milli", path)
        ran = bool(row["scheduled_time"].strip())
        deleted_s = whole(row, "deletion_time", path)
        jobs.append(
            TraceJob(
                job_id=row["name"],
                source="openb",
                queued_ms=BASE_MS + whole(row, "creation_time", path) * 1000,
                start_ms=BASE_MS + whole(row, "scheduled_time", path) * 1000 if ran else None,
                end_ms=None if deleted_s >= END_S else BASE_MS + deleted_s * 1000,
                end_type=_ENDS[row["pod_phase"]],
                gpu_milli=gpu_milli,
                cpu_milli=whole(row, "cpu_milli", path),
                # The contract takes three decimals; the rounding is at most 0.0005 GiB.
                memory_gib_milli=round(whole(row, "memory_mib", path) * 1000 / 1024),
                fields=_price_fields(gpu_milli, row["gpu_spec"]),
                team=f"qos-{row['qos'].lower()}",
                labels={"qos": row["qos"]},
            )
        )
    return jobs


def _price_fields(gpu_milli: int, gpu_spec: str) -> dict[str, str]:
    fields = {"cluster": "openb", "purchase": "on_prem"}
    if not gpu_milli:
        fields["instance_type"] = "cpu"
    elif gpu_spec:
        # The models a pod would accept; which one it got is not in the trace.
        fields["gpu_type"] = gpu_spec.split("|")[0]
    return fields
