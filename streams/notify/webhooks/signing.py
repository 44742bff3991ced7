"""Signs the exact bytes that are sent, according to Standard Webhooks 1.0."""

from datetime import UTC, datetime

from standardwebhooks import Webhook


class Signer:
    """Signs with one secret (`whsec_` and base64), or with each of two while receivers change to the second."""

    def __init__(self, *secrets: str) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]

    def headers(self, webhook_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        """The three headers of one attempt; the id is the same in every attempt, the others are current."""
        seconds = now_ms // 1000
        # The library interprets the datetime's fields as UTC whatever its time zone.
        at, text = datetime.fromtimestamp(seconds, UTC), body.decode()
        return {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(each.sign(webhook_id, at, text) for each in self._webhooks),
        }
