"""Converts price records to events."""

from typing import Final

from schemas.checks import check_time, usd_nano
from schemas.events import MATCH_FIELDS, Component, PriceEvent
from schemas.reasons import Reason
from schemas.refusal import NOTHING, refuse
from schemas.units import USD_LIMIT, Per
from schemas.wire import PriceWire

_GPU_TIME: Final = (Per.gpu_hour, Per.instance_hour)
_GPU_TIME_AND_JOBS: Final = (*_GPU_TIME, Per.job_hour)

ALLOWED_PER: Final[dict[Component, tuple[Per, ...]]] = {
    Component.gpu: _GPU_TIME,
    Component.compute: (Per.instance_hour, Per.vcpu_hour, Per.memory_gib_hour, Per.job_hour),
    Component.license: _GPU_TIME_AND_JOBS,
    Component.labor: _GPU_TIME_AND_JOBS,
    Component.overhead: _GPU_TIME_AND_JOBS,
    Component.compliance: _GPU_TIME_AND_JOBS,
    Component.network: (Per.gib, Per.gb),
    Component.storage: (Per.gib, Per.gb, Per.thousand_requests, Per.gib_month),
}
"""What the prices of a component may be per; only compute has an `instance_hour` without `gpus`."""


def price_event(raw: PriceWire, newest_allowed_ms: int) -> PriceEvent:
    """The event of a record of `prices`.

    Raises:
        RefusedError: It is invalid.
    """
    check_time(raw.time_ms, newest_allowed_ms)
    allowed = ALLOWED_PER[raw.component]
    if raw.per not in allowed:
        refuse(Reason.inconsistent, "per", raw.per, f"one of {', '.join(allowed)} for {raw.component}")
    if raw.component is Component.compliance and raw.label is None:
        refuse(Reason.inconsistent, "label", NOTHING, "the label that compliance is priced for, as key=value")
    if raw.component is not Component.compliance and raw.label is not None:
        refuse(
            Reason.inconsistent, "label", raw.label, f"none: prices of {raw.component} are not for a label"
        )
    gpus = 1
    if raw.per is Per.instance_hour:
        gpus = raw.gpus or 0
        if gpus == 0 and raw.component is not Component.compute:
            refuse(Reason.inconsistent, "gpus", NOTHING, f"the GPUs of an instance_hour of {raw.component}")
        if gpus > 0 and raw.component is Component.compute:
            refuse(
                Reason.inconsistent,
                "gpus",
                gpus,
                "none: an instance_hour of compute is per instance, not per GPU",
            )
    return PriceEvent(
        source=raw.source,
        id=raw.id,
        time_ms=raw.time_ms,
        sku=raw.sku,
        component=raw.component,
        usd_nano=usd_nano("usd", raw.usd, USD_LIMIT),
        per=raw.per,
        gpus=gpus,
        effective_ms=raw.effective_ms,
        match={name: value for name in MATCH_FIELDS if (value := getattr(raw, name)) is not None},
    )
