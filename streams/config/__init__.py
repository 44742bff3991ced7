"""The settings: what may be set (`settings`, `live`), how it is filled (`load`), and the page about it (`page`)."""
