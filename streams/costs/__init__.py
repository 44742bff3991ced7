"""The metrics over time: what any mixture of dimensions cost per hour, day, week or month."""
