"""Signs the exact bytes that are sent, according to Standard Webhooks 1.0.

It must not read a clock, and never shows its secret.
"""

from datetime import UTC, datetime

from standardwebhooks import Webhook


class Signer:
    """Signs with one secret (`whsec_` and base64)."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)

    def headers(self, webhook_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        """Return the three headers of one attempt; the id is the same in every attempt, the others are current."""
        seconds = now_ms // 1000
        # The library interprets the datetime's fields as UTC whatever its time zone.
        signature = self._webhook.sign(webhook_id, datetime.fromtimestamp(seconds, UTC), body.decode())
        return {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature,
        }
