"""Controls as TOML: files are read and checked, turned into records of `controls`, and compared with those in force."""
