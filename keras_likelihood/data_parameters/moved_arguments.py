"""Arguments of `DataParameter` in version 0.2, and where they are now."""

from keras_likelihood.data_parameters.memory_table import MemoryTable
from keras_likelihood.data_parameters.row_prior import RowPrior
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp

_OPTIMIZER = ("rho", "epsilon", "momentum", "weight_decay", "clipnorm")
_NOW = {
    **{name: f"optimizer=SparseRMSProp({name}={{!r}})" for name in _OPTIMIZER},
    "prior_scale": "prior=RowPrior({!r}, row_sizes=...)",
    "row_sizes": "prior=RowPrior(..., row_sizes=...)",
    "store": "table=FileTable({!r})",
    "shard": "table=MemoryTable(shard={!r})",
}
_GONE = ("sync", "batches_ahead", "tensorboard")


def refuse_moved(given: dict):
    """Raises an error that shows the new spelling of arguments of 0.2."""
    for name, value in given.items():
        if name not in (*_NOW, *_GONE):
            raise TypeError(f"DataParameter has no argument {name!r}")
        advice = "is no longer needed: omit it"
        if name in _NOW:
            now = f"DataParameter(..., {_NOW[name].format(value)})"
            advice = f"is now `{now}`, of `kl.data_parameters`"
        raise ValueError(f"`{name}` {advice}. Received: {name}={value!r}")


def without_moved(config: dict) -> dict:
    """A config of `DataParameter` from one that version 0.2 may have written.

    Its table on disk was not in the model file.
    """
    own = {k: v for k, v in config.items() if k not in (*_NOW, *_GONE)}
    if "table" in config:
        return own
    given = {name: config[name] for name in _OPTIMIZER if name in config}
    if (optimizer := SparseRMSProp(**given)) != SparseRMSProp():
        own["optimizer"] = optimizer
    if (scale := config.get("prior_scale")) is not None:
        own["prior"] = RowPrior(scale, row_sizes=config["row_sizes"])
    own["table"] = MemoryTable.from_config({"shard": config.get("shard")})
    return own
