"""Files of rules: read and checked as a whole, and turned into records of `controls`."""
