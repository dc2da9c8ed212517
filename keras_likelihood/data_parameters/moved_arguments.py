"""Arguments of `DataParameter` in version 0.2, and where they are now."""

from keras_likelihood.data_parameters.memory_table import MemoryTable
from keras_likelihood.data_parameters.row_prior import RowPrior
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp

_OPTIMIZER = ("rho", "epsilon", "momentum", "weight_decay", "clipnorm")
_SPELLING = {
    **{name: f"optimizer=SparseRMSProp({name}={{!r}})" for name in _OPTIMIZER},
    "prior_scale": "prior=RowPrior({!r}, row_sizes=...)",
    "row_sizes": "prior=RowPrior(..., row_sizes=...)",
    "store": "table=FileTable({!r})",
    "shard": "table=MemoryTable(shard={!r})",
}
_NOW = {
    **{
        name: f"is now `DataParameter(..., {now})`, of `kl.data_parameters`"
        for name, now in _SPELLING.items()
    },
    **dict.fromkeys(("sync", "batches_ahead"), "is no longer needed: omit it"),
    "tensorboard": "is gone; write `values()` in a callback of your own",
}


def refuse_moved(given: dict):
    """Raises an error that shows the new spelling of arguments of 0.2."""
    for name, value in given.items():
        if name not in _NOW:
            raise TypeError(f"DataParameter has no argument {name!r}")
        advice = _NOW[name].format(value)
        raise ValueError(f"`{name}` {advice}. Received: {name}={value!r}")


def without_moved(config: dict) -> dict:
    """A config of `DataParameter` from one that version 0.2 may have written.

    Its table on disk was not in the model file.
    """
    own = {name: value for name, value in config.items() if name not in _NOW}
    if "table" in config:
        return own
    given = {name: config[name] for name in _OPTIMIZER if name in config}
    optimizer = SparseRMSProp(**given)
    if optimizer != SparseRMSProp():
        own["optimizer"] = optimizer
    if config.get("prior_scale") is not None:
        own["prior"] = RowPrior(
            config["prior_scale"], row_sizes=config["row_sizes"]
        )
    own["table"] = MemoryTable.from_config({"shard": config.get("shard")})
    return own
