"""What other libraries keep private, and this package cannot do without.

Each function says why it is needed and has a test, so that a new version of
another library breaks this file alone.
"""


def producer(tensor) -> tuple:
    """The layer that made a symbolic tensor, its inputs and its position.

    `layer.output` is the output of the first call only, but a layer may be
    called twice, and a model inside a model always is.
    """
    layer, node, position = tensor._keras_history
    return layer, list(layer._inbound_nodes[node].input_tensors), position
