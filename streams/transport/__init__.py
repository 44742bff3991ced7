"""Faust, aiokafka and librdkafka, specialised to whole fetches. The only package that uses their private names.

It must not know the content of a record, or any store.
"""
