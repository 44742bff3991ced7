"""Which alerts fire, since when and with which figures; owners' addresses, silences and planned rates.

It must not read a clock, send anything or know a store: instants come in, alerts go out as values.
"""
