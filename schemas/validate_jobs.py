"""Converts lifecycle records of jobs and nodes to events."""

from schemas.checks import check_job_id, check_time, milli, money_nano, price_fields
from schemas.events import JobEvent, JobType, NodeEvent, NodeType
from schemas.reasons import Reason
from schemas.refusal import refuse
from schemas.wire import BudgetWire, JobWire, NodeWire
from schemas.wire_types import MAX_GPU_COUNT


def job_event(raw: JobWire, newest_allowed_ms: int) -> JobEvent:
    """The event of a record of `jobs`.

    Raises:
        RefusedError: It is invalid.
    """
    check_time(raw.time_ms, newest_allowed_ms)
    check_job_id(raw.job_id)
    gpu_milli = milli("gpu_count", raw.gpu_count)
    nodes = None
    if raw.nodes is not None:
        nodes = _nodes_milli(raw.nodes)
        gpu_milli = _agreed_milli(gpu_milli, nodes)
    return JobEvent(
        source=raw.source,
        id=raw.id,
        time_ms=raw.time_ms,
        job_id=raw.job_id,
        attempt=raw.attempt or 1,
        type=JobType[raw.type],
        gpu_milli=gpu_milli,
        nodes=nodes,
        fields=price_fields(raw),
        instance_milli=milli("instance_count", raw.instance_count),
        cpu_milli=milli("cpu_count", raw.cpu_count),
        memory_milli=milli("memory_gib", raw.memory_gib),
        owner=raw.owner,
        team=raw.team,
        project=raw.project,
        experiment=raw.experiment,
        labels=raw.labels,
        reason=raw.reason,
        holds_gpus=raw.holds_gpus or False,
        expected_nano_per_hour=money_nano("expected_usd_per_hour", raw.expected_usd_per_hour),
        budget=_budget(raw.budget),
        deadline_ms=raw.deadline_ms,
        quality=raw.quality,
        progress=raw.progress,
        gpus_requested=raw.gpus_requested,
        run_id=raw.run_id,
        work_dir=raw.work_dir,
        duration_ms=raw.duration_ms,
    )


def node_event(raw: NodeWire, newest_allowed_ms: int) -> NodeEvent:
    """The event of a record of `nodes`.

    Raises:
        RefusedError: It is invalid.
    """
    check_time(raw.time_ms, newest_allowed_ms)
    return NodeEvent(
        source=raw.source,
        id=raw.id,
        time_ms=raw.time_ms,
        node=raw.node,
        type=NodeType[raw.type],
        gpu_milli=milli("gpu_count", raw.gpu_count),
        fields=price_fields(raw),
        team=raw.team,
    )


def _nodes_milli(nodes: dict[str, float]) -> dict[str, int]:
    held: dict[str, int] = {}
    for node, gpus in nodes.items():
        held[node] = milli(f"nodes.{node}", gpus) or 0
    return held


def _agreed_milli(gpu_milli: int | None, nodes: dict[str, int]) -> int:
    """The GPUs of a record with `nodes`: their sum, which must equal its `gpu_count` if there is one."""
    total_milli = sum(nodes.values())
    if gpu_milli is not None and gpu_milli != total_milli:
        expected = f"the sum of `nodes`, {total_milli / 1000:g}"
        refuse(Reason.inconsistent, "gpu_count", gpu_milli / 1000, expected)
    if total_milli > MAX_GPU_COUNT * 1000:
        refuse(Reason.out_of_range, "nodes", total_milli / 1000, f"at most {MAX_GPU_COUNT} GPUs in all")
    return total_milli


def _budget(raw: BudgetWire | None) -> dict[str, str | int | float] | None:
    if raw is None:
        return None
    money_nano("budget.usd", raw.usd)
    named: dict[str, str | int | float | None] = {
        "usd": raw.usd,
        "gpu_hours": raw.gpu_hours,
        "wall_clock_hours": raw.wall_clock_hours,
        "action": raw.action,
    }
    return {name: value for name, value in named.items() if value is not None}
