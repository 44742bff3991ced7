"""The vocabulary of the meter: units, events, reasons, and how records become events.

It must not do I/O nor import anything else of this project.
"""
