"""Messages over HTTP to addresses that users gave: guarded, signed, and judged by their answers.

It must not know what a message says, when to try again, or any table.
"""

from streams.notify.webhooks.guard import ReceiverGuard, ReceiverRefusedError, shown
from streams.notify.webhooks.sender import Sender, SendResult, SendVerdict
from streams.notify.webhooks.signing import Signer

__all__ = ["ReceiverGuard", "ReceiverRefusedError", "SendResult", "SendVerdict", "Sender", "Signer", "shown"]
