"""Checks of likelihood parameters: training, ranges and size of scales."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.ops import convert_to_numpy

from keras_likelihood.backend.types import Array
from keras_likelihood.diagnosis.diagnosis import Finding
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.reading.endings import open_ending
from keras_likelihood.reading.loading import is_graph, output_of
from keras_likelihood.reading.reading import parameter_layers

_SHARE = 0.5
"""Share of the values that must be affected."""
_MARGIN = 0.01
"""Distance from the end of a range, relative to its width or start."""
_MOST_ROWS = 4096
_FOLDS = 5
_SAVED = 0.1
"""Share of the squared error that a refit must save."""
_ERRORS = 4.0
"""Number of standard errors by which the saving must exceed zero."""
_SATURATED = {
    ("shape", "lower"): "The tails are as heavy as they can be. Look at the "
    "largest errors, or fix `shape=0.0`.",
    ("shape", "upper"): "The tails are lighter than normal tails. Fix "
    "`shape=2.0` or use `NormalLoss`.",
}


def check_training(model: Any, outputs: list[Any]) -> Iterator[Finding]:
    """Findings about parameters that are not or were not trained."""
    trained = {id(v) for v in model.trainable_variables}
    steps = int(convert_to_numpy(getattr(model.optimizer, "iterations", 0)))
    for output in outputs:
        # The loss does not learn parameters that a head predicts.
        count = sum(p.source == "predicted" for p in output.parameters)
        for name, layer in output.loss.learned_beside(count).items():
            yield from _check_layer(name, layer, trained, steps, output)
        for name, data in output.data_parameters.items():
            yield from _check_rows(name, data, steps)
    for name, layer in parameter_layers(model):
        yield from _check_layer(name, layer, trained, steps)


def _check_layer(
    name: str, layer: Any, trained: set[int], steps: int, output: Any = None
) -> Iterator[Finding]:
    if not layer.built:
        return
    value, has_moved = _value(layer)
    evidence = {"steps": steps, "value": value}
    if any(id(v) in trained for v in layer.variables):
        if not has_moved:
            yield _never_moved(name, evidence)
    elif output is not None:
        yield Finding(
            "untrained_parameter",
            f"The {name}{output.title} belongs to the loss, and this model "
            "does not train its loss, so it keeps its initial value.",
            evidence,
            "Compile `kl.LikelihoodModel.from_model(model)`, or set the "
            f"{name} to a number.",
        )
    else:
        yield Finding(
            "untrained_parameter",
            f"The layer that predicts the {name} is not trainable, so it does "
            "not change.",
            evidence,
            "Set `trainable = True` on the head and compile again, unless it "
            "was frozen on purpose.",
        )


def _value(layer: Any) -> tuple[float, bool]:
    """Mean value of a parameter, and whether its initial value has changed."""
    if isinstance(layer, PredictedParameter):
        value = layer.map(layer.read(layer.bias))
        has_kernel = convert_to_numpy(layer.kernel).any()
    else:
        value, has_kernel = layer.value(), False
    value, start = convert_to_numpy(value), layer.start
    has_moved = not np.allclose(value, np.resize(start, value.shape), 1e-6)
    return float(np.mean(value)), has_kernel or has_moved


def _never_moved(name: str, evidence: dict[str, int | float]) -> Finding:
    if evidence["steps"] == 0:
        words = "is at its initial value: the model was not trained."
        return Finding(
            "not_fitted", f"The {name} {words}", evidence, "Call `fit` first."
        )
    return Finding(
        "never_moved",
        f"The {name} is exactly at its initial value after training: no "
        "gradient reaches it.",
        evidence,
        "It must not be an argument of the loss, and the head must be the "
        "output of the model. If the learning rate is tiny, raise it.",
    )


def _check_rows(name: str, data: Any, steps: int) -> Iterator[Finding]:
    values = data.values().reshape(data.num_examples, -1)
    start = np.resize(data.start, values.shape[1:])
    share = float(np.all(np.isclose(values, start, rtol=1e-6), axis=1).mean())
    evidence = {"steps": steps, "rows": data.num_examples, "share": share}
    if share == 1 and steps == 0:
        yield _never_moved(f"data {name}", evidence)
    elif share > 0.05:
        yield Finding(
            "rows_never_moved",
            f"{share:.0%} of the examples still have the initial {name}: they "
            "were never in a batch, or have weight zero.",
            evidence,
            "Train for a whole epoch, and check `num_examples` and the index.",
        )


def check_ranges(output: Any) -> Iterator[Finding]:
    """Findings about the values of one output's parameters."""
    learned = [p for p in output.parameters if p.learned]
    for parameter in learned:
        # Without a lower bound every value is allowed.
        has_end = parameter.constraint.low != -np.inf
        if has_end and np.isfinite(parameter.values).all():
            checks = (_collapsed, _saturated, _ran_away)
            findings = (check(output, parameter) for check in checks)
            yield from [f for f in findings if f][:1]
    if output.is_real and learned:
        yield from _misfit(output)


def _at_ends(parameter: Any) -> tuple[float, float]:
    """Shares of the values at the lower and at the upper end."""
    low, high = parameter.constraint.low, parameter.constraint.high
    values = parameter.values / parameter.unit
    bounded = np.isfinite(high)
    width = (high if bounded else parameter.initial) - low
    at_high = np.mean(high - values < _MARGIN * width) if bounded else 0.0
    return float(np.mean(values - low < _MARGIN * width)), float(at_high)


def _collapsed(output: Any, parameter: Any) -> Finding | None:
    if parameter.name != "scale" or not output.is_real:
        return None
    spread = float(np.std(output.y))
    # The scale must also be below its initial value. A scale that still has to
    # grow has not collapsed.
    bound = min(1e-3 * spread, 0.1 * parameter.initial * parameter.unit)
    tiny = float(np.mean(parameter.values < bound))
    share = max(_at_ends(parameter)[0] if parameter.constraint.low else 0, tiny)
    if share < _SHARE:
        return None
    error = np.abs(output.y - output.prediction)
    return Finding(
        "collapsed_scale",
        f"The scale{output.title} has collapsed: {share:.0%} of the values "
        "are near zero, so the loss can fall without bound.",
        {
            "median_scale": float(np.median(parameter.values)),
            "floor": float(parameter.constraint.low * parameter.unit),
            "median_error": float(np.median(error)),
            "target_sd": spread,
        },
        "If the median error is equally small, the model reproduces the "
        "targets: look for a copy of them among the inputs, regularize, or "
        "standardise targets in too large a unit. Otherwise use "
        "`NormalLoss(beta=0.5)` or a constraint with a higher floor.",
    )


def _saturated(output: Any, parameter: Any) -> Finding | None:
    share, end = max(zip(_at_ends(parameter), ("lower", "upper"), strict=True))
    bounded = end == "upper" or parameter.constraint.low > 0
    if share < _SHARE or not (bounded or parameter.name == "shape"):
        return None
    return Finding(
        "saturated_constraint",
        f"The {parameter.name}{output.title} is at the {end} end of the range "
        f"of {parameter.constraint} for {share:.0%} of the values, where its "
        "gradient is almost zero.",
        {
            "median": float(np.median(parameter.values)),
            "low": float(parameter.constraint.low),
            "high": float(parameter.constraint.high),
            "share": share,
        },
        _SATURATED.get((parameter.name, end))
        or "Use a constraint with a wider range, a better `initial=`, or a "
        "lower `learning_rate_multiplier=`.",
    )


def _ran_away(output: Any, parameter: Any) -> Finding | None:
    unit = parameter.initial
    if parameter.name == "scale" and output.is_real:
        # Outliers do not change a robust spread.
        errors = np.abs(output.y - output.prediction)
        unit = max(float(np.std(output.y)), float(np.median(errors)), 1e-30)
    median = float(np.median(parameter.values))
    if median <= 100 * unit:
        return None
    return Finding(
        "ran_away",
        f"The {parameter.name}{output.title} has grown to {median:.3g}, more "
        f"than a hundred times its natural size.",
        {"median": median, "natural_size": float(unit)},
        "Lower the learning rate, standardise the features "
        "(`normalize='layer'` in the head), and prefer softplus to `Exp`.",
    )


def _misfit(output: Any) -> Iterator[Finding]:
    """Whether the central 50 % intervals contain half of the targets."""
    rows = slice(None, None, -(-len(output.y) // _MOST_ROWS))
    try:
        cdf = output.distribution()[rows].cdf(output.y[rows])
    except NotImplementedError:
        return
    depth = np.abs(2 * cdf - 1)
    inside = float(np.mean(depth <= 0.5))
    if depth.size < 50 or 0.15 <= inside <= 0.85:
        return
    small = inside < 0.5
    yield Finding(
        "scale_too_small" if small else "scale_too_large",
        f"The scale{output.title} is too {'small' if small else 'large'} for "
        f"these data: the central 50 % interval holds {inside:.0%} of the "
        "targets.",
        {"inside_central_half": inside, "targets": int(depth.size)},
        f"Train for longer if it still {'grows' if small else 'falls'}. "
        f"Otherwise {'regularize, stop earlier, or ' if small else ''}fit it "
        "to held-out data with `kl.recalibration.regression.GlobalRescaling`.",
    )


def check_mean(
    model: Any, x: Array, output: Any, batch_size: int
) -> Iterator[Finding]:
    """Finding about errors that the model treats as noise.

    The last layer is refitted by least squares, and judged on held-out rows.
    The refit must improve examples with a large scale (Seitzer et al. 2022).
    """
    scale = output.parameter("scale")
    if not output.is_real or scale is None or scale.source != "predicted":
        return
    if getattr(output.loss, "beta", 0.0) >= 0.5 or not is_graph(model):
        return
    tensors = output_of(model)
    tensors = tensors[output.key] if output.key else tensors
    tensor = open_ending(split_output(tensors)[0], strip=False)[1]
    if tensor is None:
        return
    extractor = keras.Model(model.inputs, tensor)
    features = extractor.predict(x, batch_size=batch_size, verbose=0)
    if features.shape[:-1] != output.y.shape[:-1]:
        return
    count = features.size // features.shape[-1]
    error = output.y - output.prediction
    size = np.broadcast_to(scale.values, output.y.shape)
    features, error, size = (
        rows.reshape(count, -1)[:: -(-count // _MOST_ROWS)].astype("float64")
        for rows in (features, error, size)
    )
    saved, size = _saved(features, error), size.mean(axis=1)
    total, spread = float(np.mean(error**2)), saved.std() / len(saved) ** 0.5
    at_large = saved[size > np.median(size)].sum() / max(saved.sum(), 1e-300)
    share = float(saved.mean() / max(total, 1e-300))
    if share < _SAVED or saved.mean() < _ERRORS * spread or at_large < 0.8:
        return
    yield Finding(
        "neglected_mean",
        f"The predicted scale{output.title} treats avoidable errors as noise: "
        "a refit of the last layer by least squares has a squared error on "
        f"held-out examples that is {share:.0%} smaller.",
        {
            "share": share,
            "standard_error": float(spread / total),
            "share_where_scale_is_large": float(at_large),
        },
        "Train with `beta=1`, such as `StudentTLoss(beta=1.0)`, and "
        "`isolated=True, hidden_units=50` in the head, or train for longer.",
    )


def _saved(features: Array, error: Array) -> Array:
    """Squared error that a refit saves on held-out rows, `(n,)`."""
    features = features - features.mean(axis=0)
    features = features / np.maximum(features.std(axis=0), 1e-12)
    features = np.concatenate([np.ones((len(error), 1)), features], axis=1)
    fold = np.random.default_rng(0).permutation(len(error)) % _FOLDS
    predicted = np.zeros_like(error)
    for i in range(_FOLDS):
        test, train = fold == i, features[fold != i]
        square = train.T @ train + 1e-6 * len(train) * np.eye(train.shape[1])
        kernel = np.linalg.solve(square, train.T @ error[fold != i])
        predicted[test] = features[test] @ kernel
    return (error**2 - (error - predicted) ** 2).sum(axis=1)
