"""Features of a training, combined so that every pair occurs.

`CASES` is a covering array: each pair of values of two factors is in at least
one case, unless `REFUSED` names it.
"""

import collections
import itertools
import typing

import keras
import numpy as np

import keras_likelihood as kl
from tests.contracts import EAGERLY

ROWS, BATCH, COLUMNS, MEMBERS = 24, 8, 3, 2
STEPS = 2
"""Batches that train; the last batch is held out."""


IS_TORCH = keras.backend.backend() == "torch"
"""PyTorch has no `steps_per_execution`."""


class Family(typing.NamedTuple):
    """A likelihood, and the model that it needs."""

    name: str
    target: str
    parameter: str | None = "scale"
    units: int = 1
    activation: str | None = None


SOFTPLUS = 1, "softplus"
FAMILIES = {
    "one scale": [
        Family(name, "real") for name in ("normal", "laplace", "logistic")
    ],
    "two parameters": [
        Family("student_t", "real"),
        Family("robust_rho", "real", "shape"),
        Family("huber", "real"),
    ],
    "no parameter": [
        Family("poisson", "count", None, *SOFTPLUS),
        Family("exponential", "positive", None, *SOFTPLUS),
    ],
    "constrained prediction": [
        Family("gamma", "share", "shape", *SOFTPLUS),
        Family("beta", "share", "concentration", 1, "sigmoid"),
        Family("log_normal", "share", "scale", *SOFTPLUS),
        Family("negative_binomial", "count", "dispersion", *SOFTPLUS),
        Family("weibull", "share", "shape", *SOFTPLUS),
        Family("transformed(normal,log)", "share", "scale", 1, "exponential"),
    ],
    "angle": [Family("von_mises", "real", "concentration")],
    "classes": [Family("softmax", "class", "temperature", 3)],
    "binary or ordered": [
        Family("bernoulli", "binary", "temperature"),
        Family("ordinal(4)", "count", "gaps"),
    ],
    "quantiles": [Family("quantiles([0.2,0.7])", "real", "scale", 2)],
    "vector": [
        Family(f"multivariate_{name})", "vector", "scale", 2)
        for name in (
            "normal(covariance=full",
            "student_t(covariance=low_rank,rank=1",
        )
    ],
    "mixture": [Family("mixture(normal,components=2)", "real")],
    "censored, rounded or truncated": [
        Family("censored(normal)", "bounds"),
        Family("rounded(laplace,step=0.5)", "half"),
        Family("truncated(normal,low=0.0,high=3.0)", "positive"),
    ],
    "zero inflated or positive mixture": [
        Family("mixture(gamma,components=2)", "share", "shape", *SOFTPLUS),
        *(
            Family(f"zero_inflated({name})", "count", parameter, *SOFTPLUS)
            for name, parameter in (
                ("poisson", "zero_probability"),
                ("negative_binomial", "dispersion"),
            )
        ),
    ],
}
"""Likelihoods by kind: by the rank of an outcome, the number of parameters,
the constraint of the prediction and the wrapper. The likelihoods of a kind
take turns in the cases."""

FACTORS = {
    "likelihood": tuple(FAMILIES),
    "source": ("head", "global in the head", "global in the loss", "data"),
    "regularizer": tuple("none l2 DRidge DLasso MultiRidge MultiLasso".split()),
    "model": ("functional", "Sequential", "subclassed", "ensemble"),
    "data": ("arrays", "PyDataset", "generator", "tf.data"),
    "precision": ("float32", "mixed_bfloat16", "mixed_float16"),
    "weights": tuple(
        "no weights|weights|zeros|masks|weights and masks".split("|")
    ),
    "run": tuple("plain eager steps_per_execution clipnorm validation".split()),
    "adapt": ("no adapt", "adapt"),
}
"""The first value of a factor is the plainest one."""

_NO_HEAD = "only a head takes the units of the targets"
_NO_UNITS = "classes have no unit"
_NO_LOCATION = "the prediction is not the location of a location-scale family"
_WRAPPED = "censored, rounded or truncated"

REFUSED = [
    ("data", "ensemble", "the members cannot share a row for each example"),
    ("no parameter", "data", "there is no parameter to learn"),
    ("angle", "ensemble", "a circle has no first angle to count from"),
    ("global in the loss", "adapt", _NO_HEAD),
    ("data", "adapt", _NO_HEAD),
    ("classes", "adapt", _NO_UNITS),
    ("binary or ordered", "adapt", _NO_UNITS),
    ("angle", "adapt", _NO_LOCATION),
    ("quantiles", "adapt", _NO_LOCATION),
    ("vector", "adapt", _NO_LOCATION),
    ("mixture", "adapt", _NO_LOCATION),
    (_WRAPPED, "adapt", _NO_LOCATION),
]
"""Pairs of values that are refused by an error, with the reason. The page
`docs/combinations.md` has the same table."""


class Case(typing.NamedTuple):
    """One value of every factor, and the place among the likelihoods."""

    likelihood: str
    source: str
    regularizer: str
    model: str
    data: str
    precision: str
    weights: str
    run: str
    adapt: str
    turn: int = 0

    @property
    def is_compiled(self) -> bool:
        """Whether steps are compiled.

        Tracing on TensorFlow takes most of the time of a case, so there most
        cases take their steps one by one, through the same code.
        """
        if EAGERLY:
            runs = ("plain", "steps_per_execution")
            return self.run in runs and self.turn % 3 == 0
        return self.run != "eager"

    @property
    def is_sequence(self) -> bool:
        """Whether inputs are sequences, in which some steps are masked."""
        return self.weights.endswith("masks")

    @property
    def family(self) -> Family:
        members = FAMILIES[self.likelihood]
        return members[self.turn % len(members)]


def covering_array(factors, allowed):
    """Cases in which every allowed pair of values occurs, found greedily.

    Args:
        factors: dict of the values of each factor.
        allowed: function of a dict of some factors to whether they may meet.
    """
    values = [[(f, v) for v in vs] for f, vs in factors.items()]
    missing = {
        pair: None
        for a, b in itertools.combinations(values, 2)
        for pair in itertools.product(a, b)
        if allowed(dict(pair))
    }
    cases = []

    def worth(case, factor):
        # Ties go to the value that is used least.
        pairs = _sorted_pairs(case, factors)
        used = sum(case[factor] == past[factor] for past in cases)
        return sum(pair in missing for pair in pairs), -used

    while missing:
        case = dict(next(iter(missing)))
        for factor in [f for f in factors if f not in case]:
            options = ({**case, factor: v} for v in factors[factor])
            options = filter(allowed, options)
            case = max(options, key=lambda c, f=factor: worth(c, f))
        for pair in _sorted_pairs(case, factors):
            missing.pop(pair, None)
        cases.append(case)
    return [tuple(case[f] for f in factors) for case in cases]


def _sorted_pairs(case, factors):
    items = [(f, case[f]) for f in factors if f in case]
    return itertools.combinations(items, 2)


def is_allowed(case) -> bool:
    """Whether no refused pair is among these values."""
    values = set(case.values())
    return not any({a, b} <= values for a, b, _ in REFUSED)


def _with_turns(found):
    """Cases in which the likelihoods of a kind alternate."""
    past, cases = collections.Counter(), []
    for values in found:
        kind = values[0]
        turn = past[kind]
        past[kind] += 1
        if len(FAMILIES[kind]) == 2:
            # The four sources repeat in order, with the other likelihood.
            turn += turn // 4
        cases.append(Case(*values, turn))
    return cases


CASES = _with_turns(covering_array(FACTORS, is_allowed))


def plain_case(*values, turn=0) -> Case:
    """The simplest case with these values."""
    chosen = [
        next((v for v in values if v in known), known[0])
        for known in FACTORS.values()
    ]
    return Case(*chosen, turn)


def all_families() -> list[Case]:
    """The simplest case of each likelihood."""
    return [
        plain_case(kind, turn=turn)
        for kind, members in FAMILIES.items()
        for turn in range(len(members))
    ]


def camel(name):
    return "".join(part.title() for part in name.split("_"))


def make_loss(case):
    family, parameters = case.family, {}
    if case.source == "global in the loss" and family.parameter:
        parameters = {family.parameter: "global"}
    elif case.source == "data":
        if family.name == "softmax" and case.turn >= 4:
            each = {"dimension": "element"} if case.is_sequence else {}
            return kl.losses.NoisyLabelsLoss(kl.DataParameter(ROWS, **each))
        name = family.parameter or "scale"
        parameters = {name: kl.DataParameter(ROWS)}
    own = getattr(kl.losses, f"{camel(family.name)}Loss", None)
    known = {p.name for p in kl.likelihoods.get(family.name).parameters}
    if own is not None and set(parameters) <= known:
        return own(**parameters)
    return kl.losses.LikelihoodLoss(family.name, **parameters)


def make_regularizer(case):
    if case.regularizer in ("none", "l2"):
        return None if case.regularizer == "none" else "l2"
    return getattr(kl.regularizers, case.regularizer)(num_examples=ROWS)


def make_layers(case) -> list:
    """The layers of a network that ends in a head or in a prediction."""
    family, dense = case.family, keras.layers.Dense
    first = [keras.layers.Masking()] if case.is_sequence else []
    hidden = dense(
        3, activation="tanh", kernel_regularizer=make_regularizer(case)
    )
    options = {"kernel_regularizer": make_regularizer(case)}
    if case.source in ("global in the loss", "data"):
        last = dense(family.units, activation=family.activation, **options)
    else:
        if case.source == "global in the head":
            options["conditioning"] = "global"
        last = kl.layers.LikelihoodHead(family.name, family.units, **options)
    return [*first, hidden, last]


@keras.saving.register_keras_serializable("tests")
class Network(kl.LikelihoodModel):
    """The layers of a case in `call`."""

    def __init__(self, case, **kwargs):
        super().__init__(**kwargs)
        self.case = list(case)
        self.parts = make_layers(Case(*case))

    def call(self, x):
        for layer in self.parts:
            x = layer(x)
        return x

    def get_config(self):
        return {**super().get_config(), "case": list(self.case)}


def make_model(case):
    shape = make_x(case).shape[1:]
    if case.model == "subclassed":
        model = Network(case)
        model(make_x(case))
        return model

    def build(kind=keras.Model):
        inputs = x = keras.Input(shape)
        for layer in make_layers(case):
            x = layer(x)
        return kind(inputs, x)

    if case.model == "ensemble":
        return kl.Ensemble(build, members=MEMBERS)
    if case.model == "Sequential":
        stack = keras.Sequential([keras.Input(shape), *make_layers(case)])
        return kl.LikelihoodModel.from_model(stack)
    return build(kl.LikelihoodModel)


def make_x(case):
    rng = np.random.default_rng(1)
    if not case.is_sequence:
        return rng.normal(size=(ROWS, COLUMNS)).astype("float32")
    x = rng.normal(size=(ROWS, 2, COLUMNS)).astype("float32")
    x[::3, 1] = 0.0
    return x


def make_y(case):
    rng = np.random.default_rng(2)
    shape = (ROWS, 2) if case.is_sequence else (ROWS,)
    kind = case.family.target
    if kind == "class":
        return rng.integers(0, 3, shape)
    values = {
        "real": lambda s: rng.normal(size=s),
        "vector": lambda s: rng.normal(size=(*s[:-1], 2)),
        "share": lambda s: rng.uniform(0.05, 0.95, s),
        "positive": lambda s: rng.uniform(0.2, 2.5, s),
        "count": lambda s: rng.integers(0, 4, s),
        "binary": lambda s: rng.integers(0, 2, s),
        "half": lambda s: rng.integers(-2, 3, s) / 2,
        "bounds": lambda s: np.cumsum(rng.uniform(0, 1, (*s, 2)), axis=-1),
    }[kind]((*shape, 1))
    if kind == "bounds":
        values[::4, ..., 1] = np.inf
    return values.astype("float32")


def make_weights(case):
    """Sample weights `(ROWS,)`, or `None`."""
    if case.weights.startswith("weights"):
        return np.linspace(0.5, 2.0, ROWS).astype("float32")
    if case.weights != "zeros":
        return None
    weights = (np.arange(ROWS) % 2).astype("float32")
    # A whole batch may have weight zero.
    weights[BATCH : 2 * BATCH] = 0.0
    return weights


def averages(case, nll):
    """The loss and the mean NLL, from the NLL of each outcome.

    Keras divides a weighted loss by the size of the batch, and a masked one
    by the number of steps that are not masked.
    """
    counts = make_weights(case)
    counts = np.ones(ROWS) if counts is None else counts
    by = ROWS
    if case.is_sequence:
        mask = make_x(case).any(axis=-1)
        counts, by = counts[:, None] * mask, mask.sum()
    total = np.sum(nll.reshape(*counts.shape, -1).mean(axis=-1) * counts)
    return total / by, total / counts.sum()


def compiled(case):
    """The model of a case, adapted and compiled."""
    model = make_model(case)
    if case.adapt == "adapt":
        model.adapt(make_y(case), sample_weight=make_weights(case))
    clipnorm = 0.1 if case.run == "clipnorm" else None
    options = {"run_eagerly": not case.is_compiled}
    if case.run == "steps_per_execution" and not IS_TORCH:
        options["steps_per_execution"] = 2
    model.compile(
        keras.optimizers.SGD(0.01, clipnorm=clipnorm),
        loss=make_loss(case),
        weighted_metrics=[kl.metrics.NegativeLogLikelihood(name="nll")],
        **options,
    )
    return model


class Batches(keras.utils.PyDataset):
    """Batches in order."""

    def __init__(self, data, steps, size, number):
        super().__init__()
        self.data, self.steps, self.size = data, steps, size
        self.number = number

    def __len__(self):
        return self.steps

    def __getitem__(self, number):
        rows = slice(number * self.size, (number + 1) * self.size)
        x, y, *weights = rows_of(self.data, rows)
        if self.number is kl.indexed:
            y = kl.indexed(y, index=np.arange(rows.start, rows.stop))
        return (x, y, *weights)


def rows_of(data, rows):
    return keras.tree.map_structure(lambda array: array[rows], data)


def feed_training(case) -> dict:
    """Arguments of `fit` with the data of a case."""
    data = make_x(case), make_y(case), make_weights(case)
    data = tuple(part for part in data if part is not None)
    given = {}
    if case.run == "validation" and case.data == "arrays":
        given = {"validation_split": BATCH / ROWS}
    else:
        if case.run == "validation":
            held_out = rows_of(data, slice(STEPS * BATCH, None))
            given = {"validation_data": held_out}
        data = rows_of(data, slice(STEPS * BATCH))
    number = kl.indexed if case.source == "data" else lambda targets: targets
    return given | _feed(case, data, BATCH, number) | {"shuffle": False}


def feed_evaluation(case) -> dict:
    """Arguments of `evaluate` with all rows in one batch."""
    data = make_x(case), make_y(case), make_weights(case)
    data = tuple(part for part in data if part is not None)
    given = _feed(case, data, ROWS, lambda targets: targets)
    if case.data == "generator":
        given["steps"] = given.pop("steps_per_epoch")
    return given


def _feed(case, data, size, number):
    """Data in the form `case.data`; `number` indexes targets or data sets."""
    if case.data == "arrays":
        x, y, *weights = data
        given = {"x": x, "y": number(y), "batch_size": size}
        return given | ({"sample_weight": weights[0]} if weights else {})
    if case.data == "tf.data":
        import tensorflow as tf

        examples = tf.data.Dataset.from_tensor_slices(data)
        return {"x": number(examples).batch(size)}
    steps = len(data[0]) // size
    batches = Batches(data, steps, size, number)
    if case.data == "PyDataset":
        return {"x": batches}
    numbers = itertools.cycle(range(steps))
    return {"x": (batches[i] for i in numbers), "steps_per_epoch": steps}
