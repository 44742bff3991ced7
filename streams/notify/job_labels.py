"""Labels of the jobs that alerts are about, by which messages to people may be grouped: read with what was sent of the alert."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from streams.engine.alerts.alert import Alert
from streams.engine.rules.rule import JOB
from streams.notify.groups import GROUPED_AT_MOST, JOB_LABEL
from streams.notify.history import StoredDeliveries

_NONE: Final[Mapping[str, str]] = {}


class JobLabels:
    """Call `read` for alerts, then `of` for each; what an alert had first counts to its end."""

    def __init__(self, records: StoredDeliveries, group_by: Sequence[str]) -> None:
        self._records = records
        self._names = [name for name in group_by if name.startswith(JOB_LABEL)]
        self._known: OrderedDict[str, Mapping[str, str]] = OrderedDict()  # by alert id

    @property
    def are_used(self) -> bool:
        """Whether messages are grouped by any."""
        return bool(self._names)

    def read(self, alerts: Collection[Alert]) -> None:
        """Read the labels of those that are not known; it blocks."""
        fresh = {
            alert.alert_id: alert.subject_name
            for alert in alerts
            if alert.subject_kind == JOB and alert.alert_id not in self._known
        }
        if not fresh:
            return
        found = self._records.labels_of({*fresh.values()})
        for alert_id, job_id in fresh.items():
            of_job = found.get(job_id, _NONE)
            self._known[alert_id] = {name: of_job.get(name[len(JOB_LABEL) :], "") for name in self._names}
        while len(self._known) > GROUPED_AT_MOST:
            self._known.popitem(last=False)

    def of(self, alert: Alert) -> Mapping[str, str]:
        """The values, by `label.NAME`; none of what is about no job, or could not be read."""
        return self._known.get(alert.alert_id, _NONE)
