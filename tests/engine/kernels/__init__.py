"""Each kernel against its plain twin."""
