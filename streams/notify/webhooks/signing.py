"""Signs the exact bytes that are sent, as Standard Webhooks 1.0 asks.

It must not read a clock, and never shows its secret.
"""

from datetime import UTC, datetime

from standardwebhooks import Webhook


class Signer:
    """Signs with one secret (`whsec_` and base64)."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)

    def headers(self, webhook_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        """Return the three headers of one attempt; the id stays from attempt to attempt, the rest is of now."""
        seconds = now_ms // 1000
        # The library takes an instant's fields as UTC whatever its zone says.
        signature = self._webhook.sign(webhook_id, datetime.fromtimestamp(seconds, UTC), body.decode())
        return {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature,
        }
