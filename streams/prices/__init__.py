"""Price lists: their file formats, what is odd about them, what holds when, and prices made from a purchase."""
