"""Batches of arrays that need not fit in memory."""

import keras
import numpy as np

from keras_likelihood.data_parameters.indexed import indexed


class IndexedBatches(keras.utils.PyDataset):
    """Shuffled batches of arrays with the numbers of their examples.

    It is for arrays that do not fit in memory, such as an `np.memmap`: only
    the examples of a batch are read.

    ```python
    batches = kl.data_parameters.IndexedBatches(x, y, batch_size=64)
    model.fit(batches)
    ```

    Args:
        x: inputs, an array `(examples, ...)`; indexing it with integers
            must give a batch.
        y: targets, likewise.
        batch_size: examples in a batch. Defaults to 32.
        index: row numbers `(examples,)`. Defaults to 0, 1, 2, ...
        shuffle: new order every epoch. Defaults to True.
        seed: of the order, or `None`.
        **kwargs: as in `keras.utils.PyDataset`.
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        if len(x) != len(y):
            raise ValueError(
                "`x` and `y` must have the same length. "
                f"Received: {len(x)} and {len(y)}"
            )
        self.x, self.y, self.batch_size = x, y, batch_size
        self.index = np.arange(len(x)) if index is None else np.asarray(index)
        self.shuffle = shuffle
        self._random = np.random.default_rng(seed)
        self._order = np.arange(len(x))
        self.on_epoch_end()

    def __len__(self):
        return -(-len(self._order) // self.batch_size)

    def __getitem__(self, number):
        start = number * self.batch_size
        places = self._order[start : start + self.batch_size]
        y = indexed(self.y[places], index=self.index[places])
        return self.x[places], y

    def on_epoch_end(self):
        if self.shuffle:
            self._random.shuffle(self._order)
