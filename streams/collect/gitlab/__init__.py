"""`trainfare collect gitlab`: jobs by the API of Gitlab, where webhooks were lost."""
