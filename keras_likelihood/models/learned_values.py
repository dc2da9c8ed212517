"""Shows in the logs what the losses have learned."""

import keras
import numpy as np


class LearnedValues(keras.callbacks.Callback):
    """Adds the learned parameters of the losses to the logs of every epoch.

    A parameter with several values is shown by their mean.
    """

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            # On JAX, reading `self.model` updates the variables of the model.
            learned = self.model.loss_parameters.learned()
            for name, parameter in learned.items():
                logs[name] = float(np.mean(parameter.latest))
