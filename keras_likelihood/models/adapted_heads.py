"""Matches the heads of a model with targets and losses."""

from keras_likelihood.backend.private import producer
from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.layers.likelihood_head import LikelihoodHead
from keras_likelihood.layers.target_units import collect_targets
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.batch import entry


def adapt_heads(model, y, sample_weight=None):
    """Passes the targets of every output to its head; see `adapt`."""
    y, sample_weight = collect_targets(y, sample_weight)
    y, sample_weight, _ = split_index(y, sample_weight)
    output = model.output if getattr(model, "outputs", None) else None
    keys = output if isinstance(output, dict) else [""]
    found = {key: _head_behind(model, key) for key in keys}
    heads = {key: head for key, head in found.items() if head is not None}
    if not heads:
        raise ValueError(
            "`adapt` needs a model with a head, such as "
            "`kl.layers.ScaleHead`. Received: "
            f"{type(model).__name__} {model.name!r} without a head"
        )
    targets = y if isinstance(y, dict) else {"": y}
    if set(targets) - set(heads):
        raise ValueError(
            "`adapt` needs the targets of the heads "
            f"{sorted(heads)}, in the structure of the outputs. "
            f"Received: {sorted(y) if isinstance(y, dict) else type(y)}"
        )
    for key, target in targets.items():
        heads[key].adapt(target, sample_weight=entry(sample_weight, key))


def refuse_other_head(model, key, loss, parameters):
    """Raises an error if a head does not fit the loss of its output."""
    head = _head_behind(model, key)
    if head is None:
        return
    expected = loss.predicted(len(parameters))
    received = [p.name for p in head.likelihood.parameters]
    if expected != received or not _predicts_alike(
        head.likelihood, loss.likelihood
    ):
        raise ValueError(
            f"{loss.name} needs an output with the parameters {expected}, such "
            f"as a head for {loss.likelihood.name()!r}. Received: a head "
            f"for {head.likelihood.name()!r}, with {received}"
        )


def _predicts_alike(one, other) -> bool:
    """Whether the predictions of two likelihoods have the same meaning."""
    family = getattr(one, "family", None)
    if family is not None and family is getattr(other, "family", None):
        return one is other
    return repr(one.prediction_constraint) == repr(other.prediction_constraint)


def _head_behind(model, key) -> LikelihoodHead | None:
    """The head of an output, or `None`."""
    if key == "":
        return only_head(model)
    if not getattr(model, "outputs", None):
        return None
    prediction, _ = split_output(model.output[key])
    return only_head(producer(prediction)[0])


def only_head(layer) -> LikelihoodHead | None:
    """The head inside a layer or model, or `None` unless there is just one."""
    heads = list(_heads_within(layer))
    return heads[0] if len(heads) == 1 else None


def _heads_within(layer):
    if isinstance(layer, LikelihoodHead):
        yield layer
    for inner in getattr(layer, "layers", ()):
        yield from _heads_within(inner)
