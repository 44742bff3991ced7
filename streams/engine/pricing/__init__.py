"""The price book: which price is in force for which price fields at which instant."""
