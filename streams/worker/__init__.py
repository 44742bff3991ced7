"""One worker: the Faust app and everything around the engine. `meter` starts and stops it.

It must not hold arithmetic of the meter: that is `streams.engine`.
"""
