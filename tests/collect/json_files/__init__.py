"""Files of JSON lines with a map."""
