"""The vocabulary of the meter: units, events, reasons, and the decoding of records to events.

It must not do I/O, nor import anything else of this project.
"""
