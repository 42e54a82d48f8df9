"""The archive: topics as Parquet files, for years and for analysts."""
