"""Checks that several topics share.

Each check refuses or returns the normalised value.
"""

import re
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from schemas.reasons import Reason
from schemas.refusal import refuse
from schemas.units import NANO_PER_USD, to_milli, usd_to_nano
from schemas.wire import PricedWire
from schemas.wire_types import MAX_JOB_ID_BYTES

STORED_USD_LIMIT: Final = 10**9
"""Rates and budgets stay below what Decimal(18, 9) holds."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)  # any sign, any number of decimals


def check_time(time_ms: int, newest_allowed_ms: int) -> None:
    """Check that an event is not later than `newest_allowed_ms`.

    Raises:
        RefusedError: It is.
    """
    if time_ms > newest_allowed_ms:
        refuse(Reason.future, "time_ms", time_ms, f"at most {newest_allowed_ms}")


def check_job_id(job_id: str) -> None:
    """Check the size of a job id; UTF-8 takes at most four bytes a character.

    Raises:
        RefusedError: It is too long.
    """
    if len(job_id) * 4 > MAX_JOB_ID_BYTES and len(job_id.encode()) > MAX_JOB_ID_BYTES:
        refuse(Reason.out_of_range, "job_id", job_id, f"at most {MAX_JOB_ID_BYTES} bytes of UTF-8")


def price_fields(raw: PricedWire) -> dict[str, str]:
    """The price fields of a record."""
    fields: dict[str, str] = {}
    # Unrolled: half the time of a loop with getattr, and it runs for every sample.
    if raw.cloud is not None:
        fields["cloud"] = raw.cloud
    if raw.region is not None:
        fields["region"] = raw.region
    if raw.zone is not None:
        fields["zone"] = raw.zone
    if raw.cluster is not None:
        fields["cluster"] = raw.cluster
    if raw.account is not None:
        fields["account"] = raw.account
    if raw.instance_type is not None:
        fields["instance_type"] = raw.instance_type
    if raw.gpu_type is not None:
        fields["gpu_type"] = raw.gpu_type
    if raw.purchase is not None:
        fields["purchase"] = raw.purchase
    return fields


def milli(field: str, value: float | None) -> int | None:
    """The thousandths of an optional number.

    Raises:
        RefusedError: It has more than three decimals.
    """
    if value is None:
        return None
    try:
        return to_milli(value)
    except ValueError as error:
        refuse(Reason.out_of_range, field, value, str(error).removeprefix("expected "))


def money_nano(field: str, value: str | float | None) -> int | None:
    """The nano-dollars of an optional rate or budget.

    A string is exact or refused; a number, which may be a rounded quotient, is rounded half to even.

    Raises:
        RefusedError: It is no valid amount.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return usd_nano(field, value, STORED_USD_LIMIT)
    if not 0 <= value < STORED_USD_LIMIT:
        refuse(Reason.out_of_range, field, value, f"a number in [0, {STORED_USD_LIMIT})")
    return int((Decimal(repr(value)) * NANO_PER_USD).to_integral_value(ROUND_HALF_EVEN))


def usd_nano(field: str, text: str, limit_usd: int) -> int:
    """The nano-dollars of a decimal string.

    Raises:
        RefusedError: It is no valid amount.
    """
    try:
        return usd_to_nano(text, limit_usd)
    except ValueError as error:
        refuse(_why_no_usd(text), field, text, str(error).removeprefix("expected "))


def _why_no_usd(text: str) -> Reason:
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return Reason.not_finite
    return Reason.out_of_range if _DECIMAL.fullmatch(text) else Reason.wrong_type
