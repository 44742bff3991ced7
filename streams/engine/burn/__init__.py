"""What each live job costs over the last minutes and hours. Must not judge it and must not read a clock."""
