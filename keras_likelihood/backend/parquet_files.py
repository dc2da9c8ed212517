"""Files of the kind .parquet."""

from keras_likelihood.backend.extras import how_to_install


def open_parquet(path):
    """A `pyarrow.parquet.ParquetFile` with at least one row."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Reading a .parquet file {how_to_install(error)}. "
            f"Received: {path}",
            name=error.name,
        ) from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path}: the file is not a .parquet ({error})"
        ) from error
    if not file.metadata.num_rows:
        raise ValueError(f"{path}: the file holds no rows")
    return file
