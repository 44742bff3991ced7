"""Converts GPU samples to events, fast: a fleet sends more of these than of everything else together."""

from schemas.checks import check_job_id, price_fields
from schemas.events import GpuEvent
from schemas.reasons import Reason
from schemas.refusal import refuse, refuse_missing
from schemas.wire import GpuWire


def gpu_event(raw: GpuWire, newest_allowed_ms: int) -> GpuEvent:
    """The event of a record of `gpu`.

    Raises:
        RefusedError: It is invalid.
    """
    if raw.time_ms > newest_allowed_ms:
        refuse(Reason.future, "time_ms", raw.time_ms, f"at most {newest_allowed_ms}")
    job_id = raw.job_id or ""
    if len(job_id) > 50:  # at most 4 bytes each
        check_job_id(job_id)
    gpus = raw.gpus
    if gpus is None:
        if raw.gpu is None:
            refuse_missing("gpus", "an array of GPU ids, or one id in `gpu`")
        gpus = [raw.gpu]
    count = len(gpus)
    util_ratio = raw.util_ratio
    if not isinstance(util_ratio, list):
        util_ratio = [util_ratio]
    if len(util_ratio) != count:
        _refuse_length("util_ratio", util_ratio, count)
    sm_ratio, tensor_ratio = raw.sm_ratio, raw.tensor_ratio
    memory_used_mib, power_w = raw.memory_used_mib, raw.power_w
    if sm_ratio is not None:
        sm_ratio = _array("sm_ratio", sm_ratio, count)
    if tensor_ratio is not None:
        tensor_ratio = _array("tensor_ratio", tensor_ratio, count)
    if memory_used_mib is not None:
        memory_used_mib = _array("memory_used_mib", memory_used_mib, count)
    if power_w is not None:
        power_w = _array("power_w", power_w, count)
    return GpuEvent(
        raw.source,
        raw.id or "",
        raw.time_ms,
        raw.node,
        job_id,
        raw.attempt or 1,
        raw.interval_ms,
        gpus,
        util_ratio,
        sm_ratio,
        tensor_ratio,
        memory_used_mib,
        power_w,
        price_fields(raw),
    )


def _array(field: str, value: list[float] | float, count: int) -> list[float]:
    values = value if isinstance(value, list) else [value]
    if len(values) != count:
        _refuse_length(field, values, count)
    return values


def _refuse_length(field: str, values: list[float], count: int) -> None:
    expected = f"as many values as there are GPUs ({count}), not {len(values)}"
    refuse(Reason.unequal_lengths, field, values, expected)
