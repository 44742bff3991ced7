"""Faust, aiokafka and librdkafka, specialised to whole fetches. The only package that uses their private names."""
