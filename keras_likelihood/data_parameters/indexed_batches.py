"""Batches that tell data parameters what comes next."""

import keras
import numpy as np

from keras_likelihood.data_parameters.indexed import indexed


class IndexedBatches(keras.utils.PyDataset):
    """Shuffled batches of arrays with their indices, one batch ahead.

    While a batch trains, the rows of the next one are read from the file of
    each data parameter. Tables in memory have no need of it.

    ```python
    scale = kl.DataParameter(len(x), dimension="element", store="scale.rows")
    batches = IndexedBatches(x, y, batch_size=64, data_parameters=[scale])
    model.fit(batches, shuffle=False)
    ```

    Give `fit` `shuffle=False`: the batches are in random order already, and
    another order would make the next batch a surprise.

    Args:
        x: inputs, an array `(examples, ...)`; indexing it with integers
            must give a batch.
        y: targets, likewise.
        batch_size: examples in a batch. Defaults to 32.
        index: row numbers `(examples,)`. Defaults to 0, 1, 2, ...
        shuffle: new order every epoch. Defaults to True.
        seed: of the order, or `None`.
        data_parameters: the `DataParameter`s whose rows to read ahead.
    """

    def __init__(
        self,
        x,
        y,
        *,
        batch_size: int = 32,
        index=None,
        shuffle: bool = True,
        seed: int | None = None,
        data_parameters=(),
        **kwargs,
    ):
        super().__init__(**kwargs)
        if len(x) != len(y):
            raise ValueError(
                "`x` and `y` must have the same length. "
                f"Received: {len(x)} and {len(y)}"
            )
        self.x = x
        self.y = y
        self.batch_size = batch_size
        self.index = np.arange(len(x)) if index is None else np.asarray(index)
        self.shuffle = shuffle
        self.data_parameters = list(data_parameters)
        self._random = np.random.default_rng(seed)
        self._order = np.arange(len(x))
        self.on_epoch_end()

    def __len__(self):
        return -(-len(self._order) // self.batch_size)

    def __getitem__(self, number):
        if number + 1 < len(self):
            self._prefetch(number + 1)
        places = self._places(number)
        y = indexed(self.y[places], index=self.index[places])
        return self.x[places], y

    def on_epoch_end(self):
        if self.shuffle:
            self._random.shuffle(self._order)

    def _prefetch(self, number):
        index = self.index[self._places(number)]
        for parameter in self.data_parameters:
            parameter.prefetch(index)

    def _places(self, number):
        start = number * self.batch_size
        return self._order[start : start + self.batch_size]

    def __getstate__(self):
        # A process that prepares batches has no open tables to read ahead in.
        return {**self.__dict__, "data_parameters": []}
