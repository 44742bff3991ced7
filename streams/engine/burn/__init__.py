"""The burn rate of each live job at each tick: its curve, how it is extended, and when it expires."""
