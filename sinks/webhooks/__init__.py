"""Messages over HTTP to addresses that users gave: guarded, signed, and judged by their answers.

It must not know what a message says, when to try again, or any table.
"""

from sinks.webhooks.guard import Guard, Refused, shown
from sinks.webhooks.sender import Answer, Sender, Verdict
from sinks.webhooks.signing import Signer

__all__ = ["Answer", "Guard", "Refused", "Sender", "Signer", "Verdict", "shown"]
