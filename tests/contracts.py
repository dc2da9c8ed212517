"""Contracts that every class of a kind fulfils.

Each contract is a function that raises if the object breaks it. The broken
objects in `test_contracts.py` prove that it can.
"""

import keras
import numpy as np
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.likelihoods.output import split_output

FEATURES = 5
UNITS = 3
OF_NOISY_LABELS = (likelihoods.NoisyLabels, likelihoods.SparseNoise)
LIKELIHOODS = [
    found
    for found in (getattr(likelihoods, n) for n in likelihoods.__all__)
    # A base class has no parameters of its own. Likelihoods of noisy labels
    # also have a prior, so they are not distributions; see
    # `test_noisy_labels.py` and `test_sparse_noise.py`.
    if "parameters" in vars(found)
    and found not in (likelihoods.Likelihood, *OF_NOISY_LABELS)
]
"""Every likelihood that targets may follow, by discovery."""
EAGERLY = keras.backend.backend() == "tensorflow"
"""Whether steps one by one are cheaper than compiling them.

JAX compiles every single operation, and finds whole programs again that it
has compiled before.
"""
COMPILES = keras.backend.backend() != "torch"
"""Whether the backend compiles steps at all."""
COMPILED = (
    *("bernoulli", "laplace", "normal", "poisson"),
    *("robust_rho", "softmax", "student_t"),
)
"""Those that the tests of heads train in compiled steps. Compiling is the
costly part; the others train step by step, through the same code."""


def runs_eagerly(likelihood, among=COMPILED):
    """Whether tests train a likelihood in steps that are not compiled.

    Args:
        likelihood: the class.
        among: names of those that are compiled.
    """
    return EAGERLY and likelihood.name() not in among


def stands_for_others(likelihood):
    """Whether a class takes the tests that are common to all."""
    return likelihood.name() in COMPILED


def predictions_for(likelihood, values):
    """`values` as predictions that the likelihood allows."""
    constraint = likelihood.prediction_constraint
    if constraint is None:
        return values
    return ops.convert_to_numpy(constraint(ops.convert_to_tensor(values)))


def activation_for(likelihood):
    """An activation with the right range, other than the head's own."""
    bounds = getattr(likelihood.prediction_constraint, "high", None)
    return {None: "tanh", 1.0: "hard_sigmoid"}.get(bounds, "exponential")


def targets_for(likelihood, shape, rng):
    """Targets for a prediction of the given shape."""
    if issubclass(likelihood, likelihoods.Parametrized):
        return drawn_targets(likelihood, shape, rng)
    if likelihood.prediction_constraint is not None and (
        not likelihood.event_rank
    ):
        if likelihood.is_discrete:
            return rng.poisson(1.5, size=shape).astype("float32")
        if likelihood.prediction_constraint.high == 1:
            return rng.uniform(0.05, 0.95, size=shape).astype("float32")
        return (0.1 + rng.exponential(size=shape)).astype("float32")
    if likelihood.event_rank:
        return rng.integers(0, shape[-1], size=shape[:-1])
    if likelihood.name() == "bernoulli":
        return rng.integers(0, 2, size=shape).astype("float32")
    return rng.normal(size=shape).astype("float32")


def drawn_targets(likelihood, shape, rng):
    """Targets drawn from the likelihood; bounds where it takes them."""
    values = rng.normal(size=shape).astype("float32")
    prediction = predictions_for(likelihood, values)
    y = as_numpy(likelihood(prediction).sample(seed=int(rng.integers(1000))))
    if not likelihood.takes_bounds:
        return y
    kind = rng.integers(0, 4, size=y.shape)
    low = np.where(kind == 0, -np.inf, np.where(kind == 1, y - 0.5, y))
    high = np.where(kind == 2, np.inf, np.where(kind == 1, y + 0.5, y))
    return np.stack([low, high], axis=-1).astype("float32")


def as_numpy(tree):
    return keras.tree.map_structure(ops.convert_to_numpy, tree)


def assert_equal_outputs(first, second, **tolerance):
    first, second = keras.tree.flatten(first), keras.tree.flatten(second)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def head_starts_at_the_initial_values(head, initial):
    """Parameters start at their initial values, whatever the features."""
    features = np.random.default_rng(1).normal(size=(4, 6, FEATURES)) * 10
    _, parameters = split_output(as_numpy(head(features.astype("float32"))))
    for name, value in zip(initial, parameters, strict=True):
        np.testing.assert_allclose(value, initial[name], rtol=1e-5)


def head_broadcasts_with_its_prediction(head, features):
    prediction, parameters = split_output(head(features))
    for value in parameters:
        assert len(value.shape) == len(prediction.shape)
        np.broadcast_shapes(tuple(value.shape), tuple(prediction.shape))
        assert value.shape[0] == prediction.shape[0]


def symbolic_and_eager_shapes_agree(layer, features):
    symbolic = keras.tree.flatten(layer(keras.Input(features.shape[1:])))
    found = keras.tree.flatten(layer(features))
    for spec, value in zip(symbolic, found, strict=True):
        assert tuple(spec.shape[1:]) == tuple(value.shape[1:])
        assert spec.dtype == keras.backend.standardize_dtype(value.dtype)


def config_keeps_outputs(layer, features):
    """A layer rebuilt from its config and weights has the same outputs."""
    expected = as_numpy(layer(features))
    twin = type(layer).from_config(layer.get_config())
    twin(features)
    twin.set_weights(layer.get_weights())
    assert_equal_outputs(expected, as_numpy(twin(features)), rtol=1e-6)


def model_survives_saving(model, x, y, path):
    """Outputs, loss and the next training step equal the original's.

    Whole steps are not compiled, because that takes most of the time. The
    operations run one by one, and JAX has already compiled most of them.
    Returns the loaded model.
    """
    model.save(path)
    again = keras.models.load_model(path)
    outputs, losses = zip(
        *(outputs_and_loss(m, x, y) for m in (model, again)), strict=True
    )
    assert_equal_outputs(*outputs, rtol=1e-6)
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert_equal_weights(model, again, rtol=1e-6)
    losses = []
    for m in (model, again):
        if COMPILES:
            m.run_eagerly = True
            m.make_train_function(force=True)
        losses.append(m.train_on_batch(x, y))
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert_equal_weights(model, again, rtol=1e-5, atol=1e-6)
    return again


def outputs_and_loss(model, x, y):
    """Predicts and evaluates without compiling `predict` and `evaluate`."""
    if not COMPILES:
        return model.predict(x, verbose=0), model.evaluate(x, y, verbose=0)
    y_pred = model(x, training=False)
    loss = model.compute_loss(x, y, y_pred, training=False)
    return as_numpy(y_pred), as_numpy(loss)


def assert_equal_weights(first, second, **tolerance):
    assert_equal_outputs(
        *(
            [as_numpy(v.value) for v in m.trainable_variables]
            for m in (first, second)
        ),
        **tolerance,
    )


def training_moves_every_weight(model, x, y, epochs=2):
    before = [as_numpy(v.value) for v in model.trainable_variables]
    history = model.fit(x, y, epochs=epochs, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    for variable, old in zip(model.trainable_variables, before, strict=True):
        new = as_numpy(variable.value)
        assert np.all(np.isfinite(new)), variable.path
        assert not np.array_equal(new, old), f"{variable.path} never moved"


def sample_weight_counts_examples(loss, y_true, y_pred):
    """Under a sum, weight 0 drops an example and weight 2 doubles it."""
    rows = len(y_true)
    weight = np.zeros(rows, dtype="float32")
    weight[0], weight[1] = 1.0, 2.0
    kept = np.array([0, 1, 1])
    found = loss(y_true, y_pred, weight)
    expected = loss(
        y_true[kept], keras.tree.map_structure(lambda p: p[kept], y_pred)
    )
    np.testing.assert_allclose(
        as_numpy(found), as_numpy(expected), rtol=1e-5, atol=1e-6
    )


def loss_takes_one_shape(loss, y_true, y_pred):
    """`(n,)` and `(n, 1)` mean the same; what could broadcast is an error.

    The loss returns one value per example.
    """
    rows = len(y_true)
    prediction, _ = split_output(y_pred)
    expected = as_numpy(loss(y_true, y_pred))
    outcomes = prediction.shape
    if loss.likelihood.event_rank:
        outcomes = outcomes[:-1]
    forms = [y_true, y_true.astype("float64")]
    if y_true.ndim < prediction.ndim:
        forms.append(y_true[..., None])
    elif y_true.shape[-1] == 1 and y_true.ndim == prediction.ndim:
        forms.append(y_true[..., 0])
    for form in forms:
        np.testing.assert_allclose(
            as_numpy(loss(form, y_pred)), expected, rtol=1e-5
        )
    weight = np.arange(1.0, rows + 1, dtype="float32")
    for form in (
        weight,
        weight[:, None],
        np.broadcast_to(
            weight.reshape(-1, *(1,) * len(outcomes[1:])), outcomes
        ),
    ):
        found = as_numpy(loss(y_true, y_pred, form))
        wanted = weight.reshape(-1, *(1,) * (expected.ndim - 1)) * expected
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    wrong = [y_true[:, :1]] if y_true.ndim > 2 else []
    if y_true.ndim > 1 and y_true.shape[-1] > 1:
        wrong.append(y_true[..., :1])
    wrong += [y_true[:-1], np.concatenate([y_true[:, None]] * 2, axis=1)]
    for form in wrong:
        try:
            loss(form, y_pred)
        except ValueError:
            continue
        raise AssertionError(f"Targets of shape {form.shape} were accepted")


def momentum():
    """An optimizer with state that compiles twice as fast as Adam."""
    return keras.optimizers.SGD(0.01, momentum=0.9)


def small_model(outputs_of, x):
    """A functional model around `outputs_of(features)`."""
    inputs = keras.Input(x.shape[1:])
    features = keras.layers.Dense(FEATURES, activation="tanh")(inputs)
    return kl.LikelihoodModel(inputs, outputs_of(features))


def metric_survives_its_config(metric, y_true, y_pred):
    """A metric rebuilt from its config has the same results."""
    config = keras.saving.serialize_keras_object(metric)
    twin = keras.saving.deserialize_keras_object(config)
    assert twin.name == metric.name
    for m in (metric, twin):
        m.reset_state()
        m.update_state(y_true, y_pred)
    np.testing.assert_allclose(
        as_numpy(twin.result()), as_numpy(metric.result()), rtol=1e-6
    )


def metric_counts_weights(make, y_true, y_pred):
    """Weight 0 drops an example and weight 2 counts it twice."""
    weight = np.zeros(len(y_true), "float32")
    weight[0], weight[1] = 1.0, 2.0
    kept = np.array([0, 1, 1])
    found, expected = make(), make()
    found.update_state(y_true, y_pred, weight)
    expected.update_state(
        y_true[kept], keras.tree.map_structure(lambda p: p[kept], y_pred)
    )
    np.testing.assert_allclose(
        as_numpy(found.result()), as_numpy(expected.result()), rtol=1e-5
    )


def metric_streams(make, y_true, y_pred):
    """Two batches give the same result as one joint batch."""
    whole, parts = make(), make()
    whole.update_state(y_true, y_pred)
    half = len(y_true) // 2
    for rows in (slice(0, half), slice(half, None)):
        part = keras.tree.map_structure(lambda p, r=rows: p[r], y_pred)
        parts.update_state(y_true[rows], part)
    np.testing.assert_allclose(
        as_numpy(parts.result()), as_numpy(whole.result()), rtol=1e-5
    )


def recalibrator_is_no_worse(make, **arrays):
    """A fitted recalibrator does not raise the NLL of its own data."""
    report = make().fit_arrays(**arrays).report_
    assert report["nll_after"] <= report["nll_before"] + 1e-6


def recalibrator_counts_weights(make, **arrays):
    """A weight of 2 equals a repeated row."""
    rows = len(arrays["y"])
    weight = np.ones(rows)
    weight[: rows // 3] = 2.0
    twice = np.concatenate([np.arange(rows), np.arange(rows // 3)])
    weighted = make().fit_arrays(**arrays, sample_weight=weight)
    repeated = make().fit_arrays(**{k: v[twice] for k, v in arrays.items()})
    np.testing.assert_allclose(
        weighted.report_["nll_after"],
        repeated.report_["nll_after"],
        rtol=2e-3,
    )


def detector_keeps_the_contract(make, x):
    """PyOD's contract, equal scores for equal seeds, and bad inputs."""
    detector = make().fit(x)
    scores = detector.decision_scores_
    assert scores.shape == (len(x),) and np.isfinite(scores).all()
    np.testing.assert_allclose(
        detector.decision_function(x), scores, rtol=1e-4, atol=1e-5
    )
    flagged = scores > detector.threshold_
    np.testing.assert_array_equal(detector.labels_, flagged.astype(int))
    assert 0 < detector.labels_.sum() < len(x)
    np.testing.assert_array_equal(detector.predict(x), detector.labels_)
    np.testing.assert_allclose(make().fit(x).decision_scores_, scores)
    bad = x.copy()
    bad[0, 0] = np.nan
    try:
        make().fit(bad)
    except ValueError:
        return
    raise AssertionError("NaN was accepted")


def regularizer_trains_in_any_layer(make, layer, x, path):
    """The scale is finite after SGD and survives saving."""
    inputs = keras.Input(x.shape[1:])
    outputs = layer(make())(inputs)
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(outputs))
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1, 0.9), loss=kl.losses.NormalLoss())
    y = x.reshape(len(x), -1)[:, :1]
    history = model.fit(x, y, epochs=3, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    model.save(path)
    again = keras.models.load_model(path)
    pairs = zip(
        kl.regularizers.adaptive_weights(model),
        kl.regularizers.adaptive_weights(again),
        strict=True,
    )
    for mine, theirs in pairs:
        scale = mine.regularizer.scale()
        assert np.all(np.isfinite(scale)) and np.all(scale > 0)
        np.testing.assert_allclose(theirs.regularizer.scale(), scale)
