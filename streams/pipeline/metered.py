"""Rows of metered attempts: sampled GPU-seconds, priced by the newest sample of each minute.

Coverage hands in the seconds; this module keeps no state and reads no samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streams.kernels.metered import minute_pieces
from streams.pipeline.traffic import MINUTE_MS
from streams.pricing.book import PriceBook
from streams.pricing.context import usage_context
from streams.pricing.kinds import TIME_COMPONENTS, Kind
from streams.timeline.lines import Line, price_pieces

#: Thousandths of a GPU x ms in one sampled GPU-second.
MILLI_MS_PER_GPU_S = 1000 * 1000

#: A node, its sampled GPU-seconds in a minute, and the GPUs that cover each of the minute's 60 seconds.
NodeSeconds = tuple[str, int, NDArray[np.uint16]]


def minute_rows(
    minute: int,
    fields: tuple[str | None, ...],
    holders: Sequence[NodeSeconds],
    book: PriceBook,
    team: str | None,
    project: str | None,
) -> dict[Line, tuple[int, int]]:
    """The rows of one minute of a metered attempt: line -> (quantity, 0)."""
    start_ms = minute * MINUTE_MS
    context = usage_context(fields, team, project)
    rows: dict[Line, tuple[int, int]] = {}
    for component in TIME_COMPONENTS[Kind.GPU_TIME]:
        steps = book.steps(context, component, Kind.GPU_TIME)
        pieces = list(price_pieces(steps, start_ms, start_ms + MINUTE_MS, component, Kind.GPU_TIME))
        for node, sampled_gpu_s, counts in holders:
            if not sampled_gpu_s:
                continue
            if len(pieces) == 1 and pieces[0][:2] == (start_ms, start_ms + MINUTE_MS):
                quantities = [sampled_gpu_s * MILLI_MS_PER_GPU_S]
            else:
                quantities = _cut(counts, start_ms, pieces)
            for (_, _, price), quantity in zip(pieces, quantities, strict=True):
                if quantity:
                    line = Line(node, "metered", price)
                    rows[line] = (rows.get(line, (0, 0))[0] + quantity, 0)
    return rows


def _cut(counts: NDArray[np.uint16], start_ms: int, pieces: Sequence[tuple[int, int, object]]) -> list[int]:
    """GPU-time of each priced piece of the minute; time between pieces has no price and books nothing."""
    edges = sorted(
        {0, *(edge - start_ms for piece in pieces for edge in piece[:2] if edge < start_ms + MINUTE_MS)}
    )
    quantities = minute_pieces(
        counts.reshape(1, -1), np.array([0, len(edges)], np.int64), np.array(edges, np.int32)
    ).tolist()
    by_edge = dict(zip(edges, quantities, strict=True))
    ends = {from_ms - start_ms: until_ms - start_ms for from_ms, until_ms, _ in pieces}
    return [sum(by_edge[edge] for edge in edges if begin <= edge < end) for begin, end in ends.items()]
