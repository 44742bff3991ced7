"""The settings: their definitions (`settings`, `live`), how they are loaded (`load`), and their documentation (`page`)."""
