"""What Slurm's accounting says of a job, in GPU-time and dollars, to be put beside what was metered.

It uses nothing that the collector has read: the figures of sacct, a price list and a multiplication.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from schemas.events import PRICE_FIELDS, Component
from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.options import Options
from streams.collect.slurm.tres import gpu_milli, gpu_type, tres_counts
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import usage_context
from streams.engine.pricing.kinds import Kind
from streams.estimate.amounts import cost_nano
from streams.init.of_slurm import Ask

_ID: Final = re.compile(r"\d{1,10}(?:_\d{1,10}|\+\d{1,4})?")
_FORMAT: Final = "--format=State,Start,End,Partition,Cluster,AllocTRES"
_CELLS: Final = 6
_RECORDS_AT_MOST: Final = 1_000


class SlurmFigures(NamedTuple):
    """GPU-time since the meter began, and what it costs; `state` is that of the last record."""

    state: str
    gpu_milli_ms: int
    cost_nano: int
    is_priced: bool


def slurm_figures(
    job_id: str, options: Options, prices: PriceBook, now_s: int, run: Ask
) -> SlurmFigures | None:
    """What sacct says of a job; None: its id is not one of Slurm.

    Raises:
        SourceUnavailableError: sacct does not answer, or not as expected.
    """
    if not _ID.fullmatch(job_id):
        return None
    words = ("--duplicates", "--allocations", "--noheader", "--parsable2", "--allusers", "--jobs", job_id)
    answer = run([*options.sacct_command, *words, _FORMAT]).decode("utf-8", "replace")
    since_s = options.begin_ms(now_s * 1000) // 1000
    state, amount, cost, is_priced = "", 0, 0, True
    for line in answer.splitlines()[:_RECORDS_AT_MOST]:
        cells = line.split("|")
        if len(cells) != _CELLS:
            raise SourceUnavailableError("sacct: an answer of another form")
        state = cells[0].lower().partition(" ")[0]
        start_s, end_s = _second(cells[1]), _second(cells[2])
        if start_s is None:
            continue
        lasted_s = max((end_s or now_s) - max(start_s, since_s), 0)
        try:
            held = tres_counts(cells[5])
        except ValueError:
            raise SourceUnavailableError("sacct: an answer of another form") from None
        quantity = lasted_s * 1000 * gpu_milli(held, options)
        type_ = gpu_type(held, options)
        fields = {
            "cluster": cells[4],
            "gpu_type": options.gpu_types.get(type_, type_),
            **options.price_fields,
            **options.partition_price_fields.get(cells[3], {}),
        }
        context = usage_context(tuple(fields.get(name) or None for name in PRICE_FIELDS), None, None)
        price = prices.price_at(context, Component.gpu, Kind.GPU_TIME, max(start_s, since_s) * 1000)
        amount += quantity
        if price is not None:
            cost += cost_nano(quantity, price)
        elif quantity:
            is_priced = False
    return SlurmFigures(state, amount, cost, is_priced)


def _second(text: str) -> int | None:
    """Seconds since 1970 of a time of sacct, which is run in UTC; None: there is none yet."""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
