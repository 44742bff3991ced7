"""What a newer price book means for jobs and nodes in memory: whose rows must be derived again.

Compares step functions; changes nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.pipeline.attempt import Attempt
from streams.pipeline.job import Job
from streams.pipeline.node import NodeState
from streams.pipeline.traffic import MINUTE_MS
from streams.pricing.book import PriceBook
from streams.pricing.context import Context, traffic_context, usage_context
from streams.pricing.kinds import KIND_OF_UNIT, TIME_COMPONENTS, Kind

#: Price fields of a job's paid time; a set that knows its hash, as many jobs are asked for with it.
Asked = frozenset[tuple[str | None, ...]]


class PriceNews:
    """The difference between two books; each context is compared once."""

    def __init__(self, old: PriceBook, new: PriceBook) -> None:
        self.old = old
        self.new = new
        # By price fields, team and project: jobs share them.
        self._usage: dict[tuple[tuple[str | None, ...], str | None, str | None], bool] = {}
        self._asked: dict[tuple[Asked, str | None, str | None], bool] = {}
        self._differs: dict[tuple[Context, str, Kind], bool] = {}
        self.from_ms = new.first_difference_ms(old)

    def touches_job(self, job: Job) -> bool:
        """Whether any price that the job's rows were derived by is another now."""
        return self.touches(job, job.booked_dimensions.team, job.booked_dimensions.project)

    def touches(self, job: Job, team: str | None, project: str | None) -> bool:
        """Whether anything that is known of the job has another price now, if these pay for it.

        What was over before the first difference takes effect is priced as before, whatever it is.
        """
        from_ms = self.from_ms
        if from_ms is None:
            return False
        for number, timeline in job.timelines().items():
            attempt = job.attempts[number]
            fields = {segment.values.fields for segment in timeline.segments if segment.end_ms > from_ms}
            if attempt.winners:
                fields.update(_fields_of(attempt, from_ms // MINUTE_MS))
            if any(self._usage_differs(values, team, project) for values in fields):
                return True
            if attempt.traffic.all_minutes()[1] * MINUTE_MS > from_ms and any(
                self._price_differs(traffic_context(dict(match), team, project), topic, KIND_OF_UNIT[unit])
                for topic, unit, match in attempt.traffic.bases
            ):
                return True
        return False

    def touches_time(self, asked: Asked, team: str | None, project: str | None) -> bool:
        """Whether time with any of these price fields has another price now, whenever it was."""
        if self.from_ms is None:
            return False
        key = (asked, team, project)
        known = self._asked.get(key)
        if known is None:
            known = self._asked[key] = any(self._usage_differs(values, team, project) for values in asked)
        return known

    def touches_node(self, node: NodeState) -> bool:
        """Whether any price of the node's time is another now."""
        return self.from_ms is not None and any(
            self._price_differs(usage_context(segment.fields, None, None), "gpu", Kind.GPU_TIME)
            for segment in node.segments()
        )

    def _usage_differs(self, values: tuple[str | None, ...], team: str | None, project: str | None) -> bool:
        key = (values, team, project)
        known = self._usage.get(key)
        if known is None:
            context = usage_context(values, team, project)
            known = self._usage[key] = any(
                self._price_differs(context, component, kind)
                for kind, components in TIME_COMPONENTS.items()
                for component in components
            )
        return known

    def _price_differs(self, context: Context, component: str, kind: Kind) -> bool:
        key = (context, component, kind)
        known = self._differs.get(key)
        if known is None:
            known = self._differs[key] = self.old.steps(*key) != self.new.steps(*key)
        return known


def _fields_of(attempt: Attempt, first: int) -> Iterator[tuple[str | None, ...]]:
    """The price fields of its metered minutes from this one on, each once."""
    seen: set[tuple[str, ...]] = set()
    for minute, winner in attempt.winners.items():
        if minute >= first and winner.fields not in seen:
            seen.add(winner.fields)
            yield winner.price_fields
