"""Receipts of jobs that ended, and weekly digests: what is due is read from the stored ledger, stored, and handed on."""
