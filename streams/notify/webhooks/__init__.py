"""Messages over HTTP to addresses that users provided: guarded, signed, and classified by their responses."""

from streams.notify.webhooks.guard import ReceiverGuard, ReceiverRefusedError, shown
from streams.notify.webhooks.sender import Sender, SendResult, SendVerdict
from streams.notify.webhooks.signing import Signer

__all__ = ["ReceiverGuard", "ReceiverRefusedError", "SendResult", "SendVerdict", "Sender", "Signer", "shown"]
