"""The same windowed sums on other engines, beside ours: `python -m loadtest.peers`, or `make peers`.

Modules named after a system run in a process and an environment of their own: they may import that system, `task` and
the standard library, nothing else of ours.
"""
