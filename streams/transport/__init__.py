"""Faust and aiokafka, specialised to whole fetches: the only package that touches names private to them.

It must not know what is in a record, nor any store.
"""
