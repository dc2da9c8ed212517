"""Optional packages, and the extras that install them."""

import contextlib
from collections.abc import Iterator
from typing import Any

EXTRAS = {
    **{name: name for name in ("tensorflow", "jax", "torch")},
    **dict.fromkeys(("jinja2", "markupsafe", "PIL"), "pages"),
    "pyarrow": "parquet",
    "tensorflow_probability": "tfp",
    **dict.fromkeys(("matplotlib", "sklearn", "scipy"), "all"),
}


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """Install command for a missing optional module, or `None`."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return (
        f"needs {module}, which comes with "
        f'`pip install "keras-likelihood[{EXTRAS[module]}]"`'
    )


@contextlib.contextmanager
def extras_for(user: str) -> Iterator[None]:
    """A context for imports, whose errors name the extra that `user` needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if advice := how_to_install(error):
            raise ModuleNotFoundError(
                f"{user} {advice}", name=error.name
            ) from error
        raise


def tfp_distributions() -> Any:
    """Returns `tensorflow_probability.distributions`."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "`to_tfp` needs Keras on TensorFlow. "
            f"Received: the {keras.backend.backend()} backend"
        )
    with extras_for("`to_tfp`"):
        import tensorflow_probability as tfp
    return tfp.distributions
