"""What there is to report of an alert or an incident, from what the store has of it; it shows nothing."""
