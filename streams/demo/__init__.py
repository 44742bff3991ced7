"""The demonstration: a simulated fleet, metered by everything that meters a real one.

It must not shortcut the meter: what is shown was read from the log, stored, and read back.
"""
