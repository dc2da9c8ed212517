"""Packages that only some parts need, and the extra that installs each."""

EXTRAS = {
    **{name: name for name in ("tensorflow", "jax", "torch")},
    **dict.fromkeys(("jinja2", "markupsafe", "PIL"), "pages"),
    "filelock": "tables",
    "pyarrow": "parquet",
    **dict.fromkeys(("matplotlib", "rich", "sklearn", "scipy"), "all"),
}


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """Says which extra brings the module that is missing, or `None`."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return (
        f"needs {module}, which comes with "
        f'`pip install "keras-likelihood[{EXTRAS[module]}]"`'
    )
