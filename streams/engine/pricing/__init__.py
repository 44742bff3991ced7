"""Which price applies to what, when: the price book and its step functions."""
