"""Faust, aiokafka and librdkafka, specialised to whole fetches. The only package that touches their private names.

It must not know what is in a record, nor any store.
"""
