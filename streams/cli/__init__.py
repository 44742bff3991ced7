"""The `trainfare` command: one module a verb. It must not compute what a row costs; it asks and shows."""
