"""One worker: the Faust app and everything around the engine. `meter` starts and stops it."""
