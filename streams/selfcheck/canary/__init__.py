"""The canary: a job of known cost, sent through the whole meter again and again."""
