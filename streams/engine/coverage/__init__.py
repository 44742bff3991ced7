"""Which seconds of which GPU the samples covered, per minute, and the parsed shapes of GPU messages. No prices."""
