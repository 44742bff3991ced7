"""What became of all that a source listed: the classes and reasons of its entries, and what mends them."""
