"""Which alerts fire, since when and with which figures; owners' addresses, silences and planned rates.

Instants come in, alerts go out as values.
"""
