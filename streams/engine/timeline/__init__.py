"""From the events of an attempt or node to intervals: when it ran, on what, and in which phase."""
