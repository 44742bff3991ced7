"""Public cluster traces and load for measuring the meter; not part of the installed product."""
