"""The demonstration: a simulated fleet, metered by the same components as a real one.

It must not bypass the meter: everything shown was read from the log, stored, and read back.
"""
