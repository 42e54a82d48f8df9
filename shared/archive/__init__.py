"""The archive: topics as Parquet files in a folder or an object store."""
