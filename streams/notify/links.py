"""Builds the links of messages: the subject's page at an instant, the runbook, a silence, a planned rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from msgspec import UNSET, UnsetType

from schemas.messages.alert import AlertLinks
from schemas.messages.receipt import ReceiptLinks
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.meter_rules import METER
from streams.engine.rules.registry import ALL
from streams.notify.act_links import ACTS, ActLinks, Confirmation, is_plannable, offer_of
from streams.notify.notice import Notice

#: Where docs/ says what to do about a rule; of every other rule, where it says what it means.
RUNBOOKS: Final = {
    **{rule.name: rule.runbook for rule in ALL},
    "canary_wrong": "audit.md#canary",
    "canary_late": "audit.md#canary",
    "books_unbalanced": "audit.md#audit",
    "job.ended": "receipts.md#the-message",
    "digest.weekly": "receipts.md#weekly-digest",
    "request.waiting": "company.md#two-persons",
}
REQUEST_WAITING: Final = "request.waiting"
#: The kind of the subject of a test message.
TEST: Final = "test"
#: What people see of each link.
_LABELS: Final = {
    "subject": "Open",
    "runbook": "Runbook",
    "acknowledge": "Acknowledge",
    "silence": "Silence",
    "planned": "This is planned",
}
RULES_PAGE: Final = "rules.md#rules"


@dataclass(frozen=True)
class Links:
    """The addresses that links begin with, without a slash at the end; empty: no such links."""

    public_url: str = ""  # of the page
    docs_url: str = ""  # of the folder of this documentation
    signed: ActLinks | None = None  # None: whoever acts by a link shows a token of the worker

    def of(self, alert: Alert) -> AlertLinks | None:
        """The links of an alert; None: there are none."""
        if not self.public_url and not self.docs_url:
            return None
        acts = self._acts(alert)
        return AlertLinks(
            subject=self._page(*_subject(alert), f"at={alert.changed_ms}") if self.public_url else UNSET,
            runbook=self._runbook(alert.rule),
            acknowledge=acts.get("ack", UNSET),
            silence=acts.get("silence", UNSET),
            planned=acts.get("planned", UNSET),
        )

    def shown(self, alert: Alert) -> list[tuple[str, str, str]]:
        """Name, label and address of each link that people are shown."""
        if isinstance(alert, Notice) and alert.links:
            return [(label.lower().replace(" ", "_"), label, url) for label, url in alert.links]
        found = self.of(alert)
        if found is None:
            return []
        return [
            (name, label, url)
            for name, label in _LABELS.items()
            if (url := getattr(found, name)) is not UNSET
        ]

    def of_receipt(self, message_type: str, kind: str, name: str, at_ms: int) -> ReceiptLinks | None:
        """The links of a receipt or digest about a subject; None: there are none."""
        if not self.public_url and not self.docs_url:
            return None
        subject = self._page(kind, name, f"at={at_ms}") if self.public_url else UNSET
        return ReceiptLinks(subject=subject, runbook=self._runbook(message_type))

    def of_request(self, confirmation: Confirmation) -> tuple[str, str]:
        """The address that asks once and then confirms a request, and that of what it means; '': there is none."""
        runbook = self._runbook(REQUEST_WAITING) or ""
        if not self.public_url:
            return "", runbook
        if self.signed is None:
            return f"{self.public_url}/#/changes", runbook
        return f"{self.public_url}/act#confirm={self.signed.confirm_token(confirmation)}", runbook

    def _runbook(self, rule: str) -> str | UnsetType:
        return f"{self.docs_url}/{RUNBOOKS.get(rule, RULES_PAGE)}" if self.docs_url else UNSET

    def _acts(self, alert: Alert) -> dict[str, str]:
        """By act, the address that asks once and then acts on the alert; none of one that is over, or of the meter."""
        if not self.public_url or alert.status != FIRING or alert.subject_kind in (METER, TEST):
            return {}
        if self.signed is not None:
            offer = offer_of(alert)
            token = self.signed.token(offer)
            return {act: f"{self.public_url}/act#{act}={token}" for act in offer.acts}
        acts = ACTS if is_plannable(alert.subject_kind, alert.rule) else ACTS[:2]
        return {act: self._page(*_subject(alert), f"{act}={alert.alert_id}") for act in acts}

    def _page(self, kind: str, name: str, query: str) -> str:
        """The address of the job's page, or of the board for another subject."""
        if kind != "job":
            return f"{self.public_url}/?{query}#/"
        return f"{self.public_url}/?{query}#/job/{quote(name, safe='', errors='surrogatepass')}"


def _subject(alert: Alert) -> tuple[str, str]:
    return alert.subject_kind, alert.subject_name


NO_LINKS: Final = Links()
