"""The demonstration: a simulated fleet, metered by the same components as a real one.

Everything shown was read from the log, stored, and read back.
"""
