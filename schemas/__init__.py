"""The vocabulary of the meter: units, events, reasons, and the decoding of records to events."""
