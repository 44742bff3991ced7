-- Whether an hour is overcommitted by more than the rounding of its rows, as `node_hour_balance` says: its days are kept anew, for their stamps are others.
ALTER TABLE balance_hours
    ADD COLUMN IF NOT EXISTS overcommitted UInt8 AFTER overcommitted_cost_usd;
