"""Which head of a model belongs to which targets."""

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.layers.likelihood_head import LikelihoodHead
from keras_likelihood.layers.target_units import collect_targets
from keras_likelihood.likelihoods.output import split_output


def adapt_heads(model, y, sample_weight=None):
    """Passes the targets of every output to its head.

    Args:
        model: a model whose outputs are the outputs of heads.
        y, sample_weight: as in `LikelihoodModel.adapt`.
    """
    y, sample_weight = collect_targets(y, sample_weight)
    y, sample_weight, _ = split_index(y, sample_weight)
    heads = _heads(model)
    if isinstance(y, dict) != (list(heads) != [""]) or (
        isinstance(y, dict) and set(y) - set(heads)
    ):
        raise ValueError(
            "`adapt` needs the targets of the outputs that are heads, "
            f"{sorted(heads)}, in the structure of the outputs. "
            f"Received: {sorted(y) if isinstance(y, dict) else type(y)}"
        )
    for key, targets in y.items() if isinstance(y, dict) else [("", y)]:
        weight = sample_weight
        if isinstance(weight, dict):
            weight = weight.get(key)
        heads[key].adapt(targets, sample_weight=weight)


def _heads(model):
    """The heads that make the outputs, by key; `""` for a single one."""
    output = model.output if getattr(model, "outputs", None) else None
    if isinstance(output, dict):
        found = {key: _behind(part) for key, part in output.items()}
    else:
        found = {"": only_head(model)}
    heads = {key: head for key, head in found.items() if head is not None}
    if not heads:
        raise ValueError(
            "`adapt` is for a model that ends in a head, such as "
            "`kl.layers.ScaleHead`. Received: "
            f"{type(model).__name__} {model.name!r} without one"
        )
    return heads


def _behind(output):
    prediction, _ = split_output(output)
    return only_head(prediction._keras_history.operation)


def only_head(layer) -> LikelihoodHead | None:
    """The one head inside of a layer or model, or `None`."""
    heads = list(_heads_within(layer))
    return heads[0] if len(heads) == 1 else None


def _heads_within(layer):
    if isinstance(layer, LikelihoodHead):
        yield layer
    for inner in getattr(layer, "layers", ()):
        yield from _heads_within(inner)
