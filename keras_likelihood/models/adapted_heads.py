"""Matches the heads of a model with targets and losses."""

from collections.abc import Iterator
from typing import Any

from keras_likelihood.backend.private import has_producer, producer
from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.layers.likelihood_head import LikelihoodHead
from keras_likelihood.layers.target_units import collect_targets
from keras_likelihood.likelihoods import Bernoulli, Softmax
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.batch import without_missing
from keras_likelihood.models.outputs import Outputs


def adapt_heads(model: Any, y: Any, sample_weight: Any = None) -> None:
    """Passes the targets of every output to its head; see `adapt`."""
    y, sample_weight = collect_targets(y, sample_weight)
    y, sample_weight, _ = split_index(y, sample_weight)
    output, losses = model._known_outputs(), model._compiled.by_key
    outputs = model._compiled.outputs if losses else Outputs.of(None, output)
    parts = {"": None} if output is None else outputs.of_model(output)
    behind = {key: head_behind(model, key, part) for key, part in parts.items()}
    heads = {key: head for key, head in behind.items() if head is not None}
    scales = {key: _learned_scale(losses.get(key), parts[key]) for key in parts}
    own = {k: v for k, v in {**scales, **heads}.items() if v is not None}
    if not own:
        raise ValueError(
            "`adapt` needs a model with a head, such as "
            "`kl.layers.ScaleHead`, or a compiled loss that learns a scale. "
            f"Received: {type(model).__name__} {model.name!r} with neither"
        )
    names = sorted(map(outputs.name, own))
    targets = outputs.parts(y, "y").items()
    targets = {key: split_index(part)[0] for key, part in targets}
    if set(targets) - set(own):
        raise ValueError(
            f"`adapt` needs the targets of the outputs {names}, in the "
            "structure of the outputs. Received: "
            f"{sorted(y) if isinstance(y, dict) else type(y)}"
        )
    if len({id(own[key]) for key in targets}) < len(targets):
        raise ValueError(
            "A head has one centre and one spread. Pass the targets of only "
            f"one of its outputs to `adapt`. Received: targets of {names}, "
            "of which some share a head"
        )
    weights = outputs.weights(sample_weight)
    for key, target in targets.items():
        missing = getattr(losses.get(key), "missing", None)
        target, weight = without_missing(target, weights.get(key), missing)
        if key in heads:
            heads[key].adapt(target, sample_weight=weight)
        else:
            units = split_output(parts[key])[0].shape[-1]
            scales[key].adapt(target, units, weight)


def _learned_scale(loss: Any, output: Any) -> Any:
    """The scale that a loss learns for this output, or `None`."""
    if loss is None or output is None:
        return None
    scale = loss.learned_beside(len(split_output(output)[1])).get("scale")
    return None if getattr(scale, "unit", None) is None else scale


def refuse_other_head(
    model: Any, key: Any, loss: Any, count: int, prediction: Any = None
) -> None:
    """Raises an error if a head does not fit the loss of its output."""
    head = head_behind(model, key, prediction)
    if head is None:
        return
    kind, other = head.likelihood, loss.likelihood
    expected = loss.predicted(count)
    received = [p.name for p in kind.parameters]
    family = getattr(kind, "family", None)
    alike = repr(kind.prediction_constraint) == repr(
        other.prediction_constraint
    )
    if family is not None and family is getattr(other, "family", None):
        alike = kind is other
    if expected != received or not alike:
        raise ValueError(
            f"{loss.name} needs an output with the parameters {expected}, such "
            f"as a head for {other.name()!r}. Received: a head "
            f"for {kind.name()!r}, with {received}"
        )


def refuse_probabilities(loss: Any, prediction: Any) -> None:
    """Raises an error for a softmax or sigmoid in front of a loss of logits."""
    if not issubclass(loss.likelihood, Softmax | Bernoulli):
        return
    name, is_known = "", has_producer(prediction)
    while is_known:
        layer, _, position = producer(prediction)
        kinds = (getattr(layer, "activation", None), type(layer))
        name = str(getattr(kinds[0], "__name__", kinds[1].__name__)).lower()
        is_known = bool(getattr(layer, "outputs", None))
        if is_known:
            prediction = layer.outputs[position]
    if name in ("softmax", "sigmoid"):
        raise ValueError(
            f"{loss.name} needs logits. Remove the {name} at the end of the "
            "model. `predict_distribution` returns probabilities. "
            f"Received: the output of a {name}"
        )


def head_behind(model: Any, key: Any, output: Any) -> LikelihoodHead | None:
    """The head of an output, or `None`."""
    if key == "":
        return only_head(model)
    prediction, _ = split_output(output)
    known = has_producer(prediction)
    return only_head(producer(prediction)[0]) if known else None


def only_head(layer: Any) -> LikelihoodHead | None:
    """The head inside a layer or model, or `None` unless there is just one."""
    heads = list(_heads_within(layer))
    return heads[0] if len(heads) == 1 else None


def _heads_within(layer: Any) -> Iterator[LikelihoodHead]:
    if isinstance(layer, LikelihoodHead):
        yield layer
    for inner in getattr(layer, "layers", ()):
        yield from _heads_within(inner)
