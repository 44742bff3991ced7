"""The formats of bills besides FOCUS: each a module with the columns that it reads and what becomes of them."""
