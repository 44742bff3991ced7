"""One alert of a story as each kind of receiver gets it: `python -m tests.docs.renderings` prints what docs/webhooks.md shows."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from streams.backtest.recorder import AlertRecorder
from streams.config.settings import Settings
from streams.engine.alerts.alert import FIRING, Alert
from streams.notify.channels.alertmanager import alertmanager_body
from streams.notify.channels.email import mail_message
from streams.notify.channels.slack import slack_body
from streams.notify.channels.webhook import WebhookChannel, webhook_body
from streams.notify.delivery import Receiver
from streams.notify.links import Links
from streams.replay.replay import run_replay

STORY: Final = Path(__file__).resolve().parents[2] / "examples" / "stories" / "spot-fallback.jsonl"
LINKS: Final = Links("https://fare.example.com", "https://docs.example.com")
#: Captions on the page.
KINDS: Final = ("A webhook", "In Slack", "In Alertmanager", "By e-mail")
_RESEND_MS: Final = 60_000


class AlertList(AlertRecorder):
    """An alert sink that keeps what it is handed, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.alerts: list[Alert] = []

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Keep the changes."""
        self.alerts += alerts


def story_alert() -> Alert:
    """The first alert that fires in the story, as it was handed to the notifier."""
    kept = AlertList()
    with tempfile.TemporaryDirectory() as directory:
        run_replay([STORY], Path(directory) / "data", None, settings=Settings(), alert_sink=kept)
    return next(alert for alert in kept.alerts if alert.status == FIRING)


def rendered(alert: Alert) -> dict[str, str]:
    """What each kind of receiver gets, by caption."""
    now_ms, to = alert.changed_ms, Receiver(WebhookChannel.traits, "https://hooks.example.com", alert.owner)
    (posted,) = json.loads(alertmanager_body([alert], LINKS, now_ms, _RESEND_MS))
    mail = mail_message(
        [alert],
        LINKS,
        sender="trainfare@example.com",
        to="ada@example.com",
        message_id="msg_1",
        now_ms=now_ms,
    )
    text = mail.get_body(("plain",))
    assert text is not None
    return {
        "A webhook": laid_out(json.loads(webhook_body(alert, LINKS, to)), 3),
        "In Slack": laid_out(json.loads(slack_body([alert], LINKS)), 4),
        "In Alertmanager": laid_out(posted, 2),
        "By e-mail": f"Subject: {mail['Subject']}\n\n{text.get_content().strip()}\n",
    }


def laid_out(value: dict[str, Any], depth: int) -> str:
    """JSON with a line for each field of the outer objects, and for each element of their lists."""
    return _laid_out(value, depth, "") + "\n"


def _laid_out(value: Any, depth: int, indent: str) -> str:
    if not depth or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    if isinstance(value, list):
        parts = [f"{inner}{_laid_out(each, depth - 1, inner)}" for each in value]
        return "[\n" + ",\n".join(parts) + f"\n{indent}]"
    parts = [
        f"{inner}{json.dumps(name)}: {_laid_out(each, depth - 1, inner)}" for name, each in value.items()
    ]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


if __name__ == "__main__":
    for name, shown in rendered(story_alert()).items():
        sys.stdout.write(f"### {name}\n\n```{'' if name == 'By e-mail' else 'json'}\n{shown}```\n\n")
