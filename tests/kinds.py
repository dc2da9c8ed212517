"""A classifier and a regressor as every kind of Keras model."""

import keras
import numpy as np

import keras_likelihood as kl

WRAPPED = [
    "censored(normal)",
    "truncated(normal,low=0.0,high=3.0)",
    "rounded(laplace,step=0.5)",
    "mixture(normal,components=3)",
    "mixture(gamma,components=2)",
    "multivariate_normal(covariance=full)",
    "multivariate_normal(covariance=low_rank,rank=1)",
    "multivariate_student_t(covariance=diagonal)",
    "transformed(normal,log)",
    "transformed(laplace,box_cox(0.5))",
    "ordinal(4)",
    "quantiles([0.2,0.7])",
    "zero_inflated(negative_binomial)",
]
"""At least one likelihood of every family that is made from arguments."""

KINDS = [
    "functional",
    "sequential",
    "backbone",
    "nested",
    "twice_nested",
    "activation",
    "cast",
    "subclassed",
]
"""The last one has no graph, so that nothing can be seen in it."""


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Two layers in `call`, as most PyTorch users would write it."""

    def __init__(self, units=3, activation=None, **kwargs):
        super().__init__(**kwargs)
        self._config = {"units": units, "activation": activation}
        self.hidden = keras.layers.Dense(4, activation="tanh")
        self.last = keras.layers.Dense(units, activation=activation)

    def call(self, x):
        return self.last(self.hidden(x))

    def get_config(self):
        return {**super().get_config(), **self._config}


def data(rows=128, columns=5, seed=0):
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)).astype("float32")
    y = (x[:, 0] + 0.5 * random.standard_normal(rows) > 0).astype(int)
    return x, y + (x[:, 1] > 1)


def weights(units=3, columns=5):
    """Weights of all models below: hidden kernel and bias, last ones."""
    random = np.random.default_rng(1)
    shapes = [(columns, 4), (4,), (4, units), (units,)]
    return [2 * random.standard_normal(s).astype("float32") for s in shapes]


def make(kind, units=3, activation="softmax"):
    """A model of this kind; all have the same weights and outputs."""
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4, activation="tanh", name="features")
    is_layer = kind == "activation"
    last = keras.layers.Dense(units, None if is_layer else activation)
    if kind == "functional":
        model = keras.Model(inputs, last(hidden(inputs)))
    elif kind == "sequential":
        model = keras.Sequential([inputs, hidden, last])
    elif kind == "backbone":
        backbone = keras.Model(inputs, hidden(inputs))
        model = keras.Sequential([keras.Input((5,)), backbone, last])
    elif kind in ("nested", "twice_nested"):
        inner = "functional" if kind == "nested" else "nested"
        model = make(inner, units, activation)
        model = keras.Sequential([keras.Input((5,)), model])
    elif kind in ("activation", "cast"):
        then = keras.layers.Activation(activation if is_layer else "linear")
        model = keras.Model(inputs, then(last(hidden(inputs))))
    else:
        model = Subclassed(units, activation)
        model(inputs)
    model.set_weights(weights(units))
    return model


def hidden_of(x):
    """The features of these models, computed by hand."""
    kernel, bias, _, _ = weights()
    return np.tanh(x @ kernel + bias)


def logits_of(x, units=3):
    """The logits of these models, computed by hand."""
    kernel, bias, last, shift = weights(units)
    return np.tanh(x @ kernel + bias) @ last + shift


def likelihood_classifier(conditioning, units=3):
    """A `LikelihoodModel` whose temperature is predicted or learned."""
    given = keras.Input((5,))
    hidden = keras.layers.Dense(4, activation="tanh")(given)
    if conditioning == "head":
        output = kl.layers.TemperatureHead(units)(hidden)
        model = kl.LikelihoodModel(given, output)
    else:
        model = kl.LikelihoodModel(given, keras.layers.Dense(units)(hidden))
    model.compile("sgd", loss=kl.losses.SoftmaxLoss())
    return model
