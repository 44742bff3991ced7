"""One worker: Faust's app and what surrounds the engine. `meter` starts and stops it.

It must not hold arithmetic of the meter: that is `streams.engine`.
"""
