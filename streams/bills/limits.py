"""What a file of a bill may be called, and how much it may hold."""

from typing import Final

#: Files of text.
TEXT_ENDINGS: Final = (".csv", ".json", ".jsonl", ".ndjson")
#: What an export writes about its own files.
MANIFEST: Final = "manifest.json"
#: Unpacked.
BYTES_MAX: Final = 2 * 2**30
LINES_MAX: Final = 5_000_000
#: Of one column of one row group of Parquet, unpacked: what is in memory at a time.
COLUMN_MAX_BYTES: Final = 256 * 2**20
#: Bills of different accounts and months in one file.
PERIODS_MAX: Final = 10_000
#: Of lines that are stored at once, as text.
BATCH_MAX_BYTES: Final = 64 * 2**20
