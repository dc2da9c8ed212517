"""Auto-encoders whose predicted scale is an outlier score."""

import contextlib
import warnings

import keras
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from keras_likelihood.backend.threads import one_thread
from keras_likelihood.constraints import Exp
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.losses import LaplaceLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.outliers.columns import measure, standardise
from keras_likelihood.outliers.detector import OutlierDetector
from keras_likelihood.outliers.forecast import Forecast
from keras_likelihood.outliers.row_noise import RowNoise
from keras_likelihood.outliers.saving import load_detector, save_detector

_STEPS_A_ROUND = 50
_SCORE_ROWS = 4096
_FEW_COLUMNS = 300
"""Up to so many columns a step is faster on one thread."""
_WIDE = 1000
"""From so many columns on a step takes longer than the pause between two."""


class ScaleDetector(OutlierDetector):
    """Scores a row by the scale that an auto-encoder predicts for its error.

        x' = x + level e,    level ~ uniform(0, noise),    e ~ normal(0, 1)
        loss = -log Laplace(x | decode(encode(x')), s(x')),    score = log s(x)

    Rows are standardised. Constant columns are left out. A value more than a
    million robust deviations from the median of its column is cut there, and
    the logarithm of the excess is added to the score. The auto-encoder must
    restore each row from a noisy copy, so it learns what the rows have in
    common. The scale learns where this fails. A row with a large scale has
    little weight in the loss, so outliers have little influence on the model.
    The score depends on the row alone, so new rows have a score too.

    Args:
        noise: largest level of noise, relative to the deviation of a column,
            `>= 0`. Defaults to 2.
        dropout: share of the inputs of the code that are dropped, in [0, 1).
            Defaults to 0.2.
        scale_units: width of the two hidden layers of `s`. Defaults to 64.
        steps: largest number of training steps. Defaults to 1000.
        batch_size: rows in each step. Defaults to 256.
        learning_rate: the learning rate of Adam, decayed to 0 along a cosine.
            Defaults to 0.002.
        early_stopping: whether to hold out `validation_fraction` of the rows
            and to stop when their loss has not fallen for `patience` rounds. A
            round is a pass over the rows, or 50 steps if that is more.
            Defaults to False.
        patience: see `early_stopping`. Defaults to 5.
        validation_fraction: see `early_stopping`. Defaults to 0.1.
        contamination: share of outliers, in (0, 0.5]. Defaults to 0.1.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to show Keras' progress bar and the expected time of a
            long training. Defaults to False. Then a warning gives the time for
            tables of more than 1000 columns.
    """

    _more_arrays: tuple = ()
    """Fitted arrays of a subclass, for files."""
    callbacks: tuple = ()
    """Further Keras callbacks of the training, which are not saved."""

    def __init__(
        self,
        *,
        noise: float = 2.0,
        dropout: float = 0.2,
        scale_units: int = 64,
        steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        early_stopping: bool = False,
        patience: int = 5,
        validation_fraction: float = 0.1,
        contamination: float = 0.1,
        random_state=None,
        verbose: bool = False,
    ):
        super().__init__(contamination=contamination)
        self.noise = noise
        self.dropout = dropout
        self.scale_units = scale_units
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def save(self, path: str):
        """Writes the fitted detector to a file."""
        check_is_fitted(self, "decision_scores_")
        save_detector(self, path)

    @classmethod
    def load(cls, path: str):
        """Reads a detector that `save` wrote."""
        return load_detector(cls, path)

    def _reconstruct(self, noisy, units, seed):
        """Keras tensor of the reconstruction of `(batch, units)` rows."""
        raise NotImplementedError

    def _fit(self, x):
        self._check_options()
        random = check_random_state(self.random_state)
        for name, values in measure(x).items():
            setattr(self, f"{name}_", values)
        if not self.kept_.any():
            raise ValueError(
                "A detector needs a column that varies. "
                f"Received: {x.shape[1]} constant column(s)"
            )
        z, excess = self._standardise(x)
        small = z.shape[1] <= _FEW_COLUMNS
        with one_thread() if small else contextlib.nullcontext():
            self.model_ = self._train(z, random)
        return self._predict(z) + excess

    def _score(self, x):
        z, excess = self._standardise(x)
        return self._predict(z) + excess

    def _standardise(self, x):
        return standardise(
            x,
            self.mean_,
            self.deviation_,
            self.kept_,
            self.middle_,
            self.spread_,
        )

    def _predict(self, z):
        _, scale = self.model_.predict(z, batch_size=_SCORE_ROWS, verbose=0)
        return np.log(scale[:, 0].astype("float64"))

    def _train(self, z, random):
        model = self._build(z.shape[1], random)
        validation, callbacks = None, list(self.callbacks)
        if self.verbose or z.shape[1] > _WIDE:
            say = _print_line if self.verbose else warnings.warn
            callbacks.append(Forecast(self.steps, z.shape[1], say))
        if self.early_stopping:
            order = random.permutation(len(z))
            held = max(1, round(self.validation_fraction * len(z)))
            z_held, z = z[order[:held]], z[order[held:]]
            validation = (z_held, z_held)
            callbacks.append(
                keras.callbacks.EarlyStopping(
                    patience=self.patience, restore_best_weights=True
                )
            )
        z, rounds = self._rounds(z, random)
        self.history_ = model.fit(
            z,
            z,
            batch_size=self.batch_size,
            epochs=rounds,
            shuffle=False,
            validation_data=validation,
            callbacks=callbacks,
            verbose="auto" if self.verbose else 0,
        ).history
        return model

    def _rounds(self, z, random):
        """Rows of a round in random order, and how many rounds to train.

        A round uses all rows at least once, and all its batches are full. With
        short rounds Keras' own work would take longer than the training. A
        batch of another size would need another compilation.
        """
        shortest = max(len(z), _STEPS_A_ROUND * self.batch_size)
        rounds = max(1, self.steps * self.batch_size // shortest)
        rows = -(-self.steps // rounds) * self.batch_size
        return z[np.resize(random.permutation(len(z)), rows)], rounds

    def _build(self, units, random):
        noise_seed, dropout_seed = random.randint(2**31 - 1, size=2).tolist()
        inputs = keras.Input((units,))
        noisy = RowNoise(self.noise, seed=noise_seed)(inputs)
        decoded = self._reconstruct(noisy, units, dropout_seed)
        h = noisy
        for _ in range(2):
            h = dense(self.scale_units, "tanh")(h)
        scale = PredictedParameter(
            "laplace",
            "scale",
            units,
            dimension="scalar",
            constraint=Exp(),
            name="scale",
        )(h)
        model = LikelihoodModel(inputs, (decoded, scale))
        for layer in model.layers:
            if isinstance(layer, keras.layers.Dense):
                layer.kernel.assign(_start(layer.kernel.shape, random))
        decay = keras.optimizers.schedules.CosineDecay(
            self.learning_rate, self.steps
        )
        model.compile(
            keras.optimizers.Adam(decay),
            loss=LaplaceLoss(),
            steps_per_execution=self._steps_per_execution(units),
        )
        return model

    def _steps_per_execution(self, units):
        # PyTorch runs one step at a time. Steps on a wide table are long, and
        # `Forecast` must see the end of the first ones.
        if keras.backend.backend() == "torch" or units > _WIDE:
            return 1
        return min(_STEPS_A_ROUND, self.steps)

    def _check_options(self):
        ranges = {
            "noise": (self.noise >= 0, ">= 0"),
            "dropout": (0 <= self.dropout < 1, "in [0, 1)"),
            "scale_units": (self.scale_units >= 1, ">= 1"),
            "steps": (self.steps >= 1, ">= 1"),
            "batch_size": (self.batch_size >= 1, ">= 1"),
            "learning_rate": (self.learning_rate > 0, "> 0"),
            "patience": (self.patience >= 1, ">= 1"),
            "validation_fraction": (
                0 < self.validation_fraction < 1,
                "in (0, 1)",
            ),
        }
        for name, (fits, allowed) in ranges.items():
            if not fits:
                raise ValueError(
                    f"`{name}` must be {allowed}. "
                    f"Received: {getattr(self, name)}"
                )


def dense(units, activation, **options):
    """A `Dense` layer. `ScaleDetector` draws its initial weights."""
    return keras.layers.Dense(
        units, activation=activation, kernel_initializer="zeros", **options
    )


def _print_line(text):
    # Keras' progress bar is in the line before.
    print(f"\n{text}", flush=True)


def _start(shape, random):
    # NumPy is used, because JAX would compile a sampler for every shape.
    return random.normal(scale=shape[0] ** -0.5, size=shape)
