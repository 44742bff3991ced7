"""The alerts that the meter raises about itself."""
