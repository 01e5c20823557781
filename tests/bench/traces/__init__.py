"""Suite `traces`: a million traces, as CSV and as Parquet, by `admc overhead --traces`."""
