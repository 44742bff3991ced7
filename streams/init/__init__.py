"""The first configuration of a meter: what is there, what it could cost, the files for it, and their start."""
