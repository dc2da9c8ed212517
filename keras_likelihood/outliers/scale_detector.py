"""PCA+S and AE+S: auto-encoders with a predicted scale."""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from keras_likelihood.backend import files
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.threads import one_thread
from keras_likelihood.backend.types import Array
from keras_likelihood.constraints import Exp
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.likelihoods.checks import check_argument, check_seed
from keras_likelihood.losses import LikelihoodLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.outliers.detector import OutlierDetector
from keras_likelihood.reading import archives

MEASURES = ("mean", "deviation", "kept", "middle", "spread")
FARTHEST = 1e6
"""Values are clipped at this number of robust deviations from the median."""
_LARGEST = 1e300
"""Sums and differences of numbers up to this size do not overflow."""


def measure(x: Array) -> dict[str, Any]:
    """Measures the columns of a table of float64, for `standardise`.

    The deviation of a column with a value of 1e200 would overflow. So columns
    are first measured in robust deviations (`spread`) from the median
    (`middle`), the unit of `mean` and `deviation`. `kept` is false for constant
    columns.
    """
    x = np.clip(x, -_LARGEST, _LARGEST)
    middle = np.median(x, axis=0)
    distance = np.abs(x - middle)
    spread = 1.4826 * np.median(distance, axis=0)
    # If most values of a column are equal, its median deviation is 0.
    spread = np.where(spread > 0, spread, distance.mean(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    u = np.clip(_robust(x, middle, spread), -FARTHEST, FARTHEST)
    mean, deviation = u.mean(axis=0), u.std(axis=0)
    # Rounding errors of a constant column are not a deviation.
    largest = np.abs(middle + spread * u).max(axis=0)
    kept = spread * deviation > 1e-7 * largest
    values = mean, deviation, kept, middle, spread
    return dict(zip(MEASURES, values, strict=True))


def _robust(x: Array, middle: Array, spread: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.clip((x - middle) / spread, -_LARGEST, _LARGEST)


def standardise(x: Array, columns: dict[str, Any]) -> tuple[Array, Array]:
    """Standardises the kept columns, to float32 `(n, kept)`.

        excess = max over columns of log(|x - middle| / (FARTHEST spread))

    The excess, `(n,)`, is 0 for rows without clipped values, and at least
    `log(FARTHEST)` for a new value in a constant column.
    """
    mean, deviation, kept, middle, spread = (columns[m] for m in MEASURES)
    x = np.clip(x, -_LARGEST, _LARGEST)
    u = _robust(x, middle, spread)[:, kept]
    excess = np.log(np.maximum(np.abs(u).max(axis=1) / FARTHEST, 1.0))
    is_new = (np.abs(x - middle) > 1e-6 * np.abs(middle)) & ~kept
    excess[is_new.any(axis=1)] += np.log(FARTHEST)
    z = (np.clip(u, -FARTHEST, FARTHEST) - mean[kept]) / deviation[kept]
    # Beyond this the network's float32 arithmetic could overflow.
    return np.clip(z, -FARTHEST, FARTHEST).astype("float32"), excess


@serializable
class RowNoise(keras.Layer):
    """Adds normal noise to rows while training, of a random level each."""

    def __init__(
        self, largest: float, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.largest = largest
        self._generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or self.largest == 0:
            return inputs
        shape, random = keras.ops.shape(inputs), keras.random
        options = {"dtype": self.compute_dtype, "seed": self._generator}
        level = random.uniform((shape[0], 1), 0.0, self.largest, **options)
        return inputs + level * random.normal(shape, **options)


_ARRAYS = (*(f"{m}_" for m in MEASURES), "decision_scores_")
_STEPS_PER_ROUND = 50
_SCORE_ROWS = 4096
_BLOCK = 32
_FEW_COLUMNS = 300
"""Up to this number of columns a step is faster on one thread."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ScaleDetector(OutlierDetector):
    """Scores a row by the scale that an auto-encoder predicts for its error.

        x' = x + level e,    level ~ uniform(0, noise),    e ~ normal(0, 1)
        loss = -log p(x | decode(encode(x')), s(x')),    score = log s(x)

    Rows are standardised, and constant columns left out. A value more than a
    million robust deviations from the median of its column is clipped, and the
    logarithm of the excess is added to the score. The auto-encoder must
    reconstruct each row from a noisy copy, so it learns what the rows have in
    common. A row with a large scale has little weight in the loss, so outliers
    have little influence on the model.

    Args:
        noise: largest noise level, relative to the standard deviation of a
            column, `>= 0`. Defaults to 2.
        dropout: dropout rate of the inputs of the code, in [0, 1). Defaults to
            0.2.
        scale_units: width of the two hidden layers of `s`; 0 for none.
            Defaults to 64.
        steps: number of training steps. Defaults to 1000.
        batch_size: rows in each step. Defaults to 256.
        learning_rate: the learning rate of Adam. Defaults to 0.002.
        decay: whether it decays to 0 along a cosine. Defaults to True.
        likelihood: name of the likelihood `p`, which has a scale. Defaults to
            `"laplace"`.
        contamination: share of outliers, in (0, 0.5]. Defaults to 0.1.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to show Keras' progress bar. Defaults to False.
    """

    noise: float = 2.0
    dropout: float = 0.2
    scale_units: int = 64
    steps: int = 1000
    batch_size: int = 256
    learning_rate: float = 2e-3
    decay: bool = True
    likelihood: str = "laplace"
    random_state: Any = None
    verbose: bool = False

    _reconstruct: ClassVar[Callable[..., Any]]
    """Makes the reconstruction of noisy rows `(batch, units)`, a tensor."""
    _more_arrays: ClassVar[tuple[Any, ...]] = ()
    """Fitted arrays of a subclass, for files."""
    callbacks: Sequence[Any] = dataclasses.field(default=(), init=False)
    """Further Keras callbacks of the training, which are not saved."""

    def save(self, path: str) -> None:
        """Writes the fitted detector to an archive of arrays."""
        check_is_fitted(self, "decision_scores_")
        options = self.get_params()
        if not isinstance(options["random_state"], int | None):
            # A fitted detector does not need its random state.
            options["random_state"] = None
        about = {"detector": type(self).__name__, "options": options}
        names = (*_ARRAYS, *self._more_arrays)
        arrays = {name: getattr(self, name) for name in names}
        for number, value in enumerate(self.model_.get_weights()):
            arrays[f"weight_{number}"] = value
        with files.replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, about=json.dumps(about), **arrays)

    @classmethod
    def load(cls, path: str) -> Any:
        """Loads a detector written by `save`. No code in the file is run."""
        arrays = archives.read_arrays(path)
        with files.reading(path, "a saved detector"):
            about = json.loads(str(arrays.pop("about")))
            if about["detector"] != cls.__name__:
                raise files.FileError(
                    f"{path}: the file must hold a {cls.__name__}. "
                    f"Received: a {about['detector']}"
                )
            detector = cls(**about["options"])
            if any(np.isnan(array).any() for array in arrays.values()):
                raise ValueError("it has NaN")
            for name in (*_ARRAYS, *cls._more_arrays):
                setattr(detector, name, arrays.pop(name))
            detector.n_features_in_ = len(detector.kept_)
            detector._set_threshold()
            weights = [arrays[f"weight_{i}"] for i in range(len(arrays))]
            widest = max(map(len, weights))
            for name in ("scale_units", "hidden_units"):
                # Layers are built before their weights are compared.
                units = about["options"].get(name, 0)
                check_argument(name, units, units <= widest, "the stored width")
            random = np.random.RandomState(0)
            detector.model_ = detector._build(int(detector.kept_.sum()), random)
            detector.model_.set_weights(weights)
        return detector

    def _fit(self, x: Array) -> Array:
        self._check_options()
        check_seed("random_state", self.random_state)
        random = check_random_state(self.random_state)
        for name, values in measure(x).items():
            setattr(self, f"{name}_", values)
        received = f"{x.shape[1]} constant column(s)"
        allowed = "a table with a column that varies"
        check_argument("X", received, self.kept_.any(), allowed)
        z, excess = self._standardise(x)
        small = z.shape[1] <= _FEW_COLUMNS
        with one_thread() if small else contextlib.nullcontext():
            self.model_ = self._build(z.shape[1], random)
            rows, rounds = self._rounds(z, random)
            self.history_ = self.model_.fit(
                rows,
                rows,
                batch_size=self.batch_size,
                epochs=rounds,
                shuffle=False,
                callbacks=list(self.callbacks),
                verbose="auto" if self.verbose else 0,
            ).history
        return self._predict(z) + excess

    def _score(self, x: Array) -> Array:
        z, excess = self._standardise(x)
        return self._predict(z) + excess

    def _standardise(self, x: Array) -> tuple[Array, Array]:
        return standardise(x, {m: getattr(self, f"{m}_") for m in MEASURES})

    def _predict(self, z: Array) -> Array:
        # Rounding depends on the number of rows in a product, but a score must
        # not depend on the other rows.
        rows = np.pad(z, [(0, -len(z) % _BLOCK), (0, 0)])
        _, scale = self.model_.predict(rows, batch_size=_SCORE_ROWS, verbose=0)
        return np.log(scale[: len(z), 0].astype("float64"))

    def _rounds(self, z: Array, random: Any) -> tuple[Array, int]:
        """Rows of a round in random order, and the number of rounds."""
        # A round uses all rows at least once, because the overhead of Keras
        # between short rounds would exceed the training time. A partial batch
        # would need another compilation.
        shortest = max(len(z), _STEPS_PER_ROUND * self.batch_size)
        rounds = max(1, self.steps * self.batch_size // shortest)
        rows = -(-self.steps // rounds) * self.batch_size
        return z[np.resize(random.permutation(len(z)), rows)], rounds

    def _build(
        self, units: int, random: np.random.RandomState
    ) -> LikelihoodModel:
        noise_seed, dropout_seed = random.randint(2**31 - 1, size=2).tolist()
        inputs = keras.Input((units,))
        noisy = RowNoise(self.noise, seed=noise_seed)(inputs)
        decoded = self._reconstruct(noisy, units, dropout_seed)
        h = noisy
        for _ in range(2 if self.scale_units else 0):
            h = dense(self.scale_units, "tanh")(h)
        options: dict[str, Any] = {"dimension": "scalar", "name": "scale"}
        scale = PredictedParameter(
            self.likelihood, "scale", units, constraint=Exp(), **options
        )
        model = LikelihoodModel(inputs, (decoded, scale(h)))
        for layer in model.layers:
            if isinstance(layer, keras.layers.Dense):
                # JAX would compile a sampler for every shape.
                rows, columns = layer.kernel.shape
                start = random.normal(scale=rows**-0.5, size=(rows, columns))
                layer.kernel.assign(start)
        rate: Any = self.learning_rate
        if self.decay:
            rate = keras.optimizers.schedules.CosineDecay(rate, self.steps)
        # PyTorch runs one step at a time.
        most = 1 if keras.backend.backend() == "torch" else _STEPS_PER_ROUND
        model.compile(
            keras.optimizers.Adam(rate),
            loss=LikelihoodLoss(self.likelihood),
            steps_per_execution=min(most, self.steps),
        )
        return model

    def _check_options(self) -> None:
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), 0
            if field.type is int and field.name != "scale_units":
                least = 1
            if field.type in (int, float):
                allowed = f"a number >= {least}"
                check_argument(field.name, value, value >= least, allowed)
        check_argument("dropout", self.dropout, self.dropout < 1, "in [0, 1)")
        rate = self.learning_rate
        check_argument("learning_rate", rate, rate > 0, "> 0")


def dense(units: int, activation: str | None, **options: Any) -> Any:
    """A `Dense` layer. `ScaleDetector` draws its initial weights."""
    return keras.layers.Dense(
        units, activation=activation, kernel_initializer="zeros", **options
    )


_WIDEST_CODE = 256
"""Largest width of the code, which limits the training time."""


class PCAScale(ScaleDetector):
    """Finds outliers by the scale of a linear auto-encoder's errors.

        decode(encode(x)) = dropout(x) A B + b

    `A` has half as many columns as the data, at most 256. They are like the
    directions of PCA, but outliers have little influence on them.

    ```python
    detector = PCAScale(random_state=0).fit(x)
    strangest = detector.decision_scores_.argsort()[::-1][:10]
    detector.predict(x_new)
    ```

    Args:
        **options: options of `ScaleDetector`.
    """

    @classmethod
    def of_paper(cls, **options: Any) -> "PCAScale":
        """PCA+S with the settings of the paper; `options` replace some."""
        paper = {"likelihood": "normal", "noise": 0.0, "scale_units": 0}
        paper |= {"steps": 4000, "batch_size": 128, "decay": False}
        return cls(**{**paper, "learning_rate": 5e-4, **options})

    def _reconstruct(self, noisy: Any, units: int, seed: int) -> Any:
        kept = keras.layers.Dropout(self.dropout, seed=seed)(noisy)
        code_units = min(-(-units // 2), _WIDEST_CODE)
        code = dense(code_units, None, use_bias=False)(kept)
        return dense(units, None)(code)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AutoencoderScale(ScaleDetector):
    """Finds outliers by the scale of a deep auto-encoder's errors.

        encode(x) = dropout(relu(x A)) B,    decode(c) = relu(c C) D + d

    The code is as wide as the data: there is no bottleneck. Noise and dropout
    keep the network from copying its input.

    ```python
    detector = AutoencoderScale(random_state=0).fit(x)
    detector.decision_function(x_new)
    ```

    Args:
        hidden_units: width of the hidden layers of encoder and decoder.
            Defaults to 64.
        noise: largest noise level, `>= 0`. Defaults to 1, because a nonlinear
            map needs less noise than a linear one.
        **options: options of `ScaleDetector`.
    """

    hidden_units: int = 64
    noise: float = 1.0

    def _reconstruct(self, noisy: Any, units: Any, seed: Any) -> Any:
        h = dense(self.hidden_units, "relu")(noisy)
        h = keras.layers.Dropout(self.dropout, seed=seed)(h)
        code = dense(units, None, use_bias=False)(h)
        h = dense(self.hidden_units, "relu")(code)
        return dense(units, None)(h)
