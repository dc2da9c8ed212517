"""The callback that measures curvature and moves the priors' scales."""

import math
from typing import Any

import keras

from keras_likelihood import likelihoods
from keras_likelihood.backend.weight_gradients import sync_variables
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.regularizers.confidence import Confidence
from keras_likelihood.regularizers.curvature import (
    LARGEST_FACTOR,
    LARGEST_MATRIX,
    Curvature,
    matrix_shape,
)
from keras_likelihood.regularizers.decays import Decays
from keras_likelihood.regularizers.example_inputs import ExampleInputs
from keras_likelihood.regularizers.fisher import FisherFactors
from keras_likelihood.regularizers.learned_noise import bind_noise
from keras_likelihood.regularizers.leave_one_out import linear_classifier
from keras_likelihood.regularizers.pruning import adaptive_weights
from keras_likelihood.regularizers.scale_free import Rates

_FIRST_STEP = 16
_SHORTEST = 32
_MOVE_EVERY = 16
_MOST_MOVES = 8


class MeasuredCurvature(keras.callbacks.Callback):
    """Lets adaptive regularizers follow the Laplace evidence of the model.

    `LikelihoodModel.fit` adds this callback by itself. It measures the
    curvature of the negative log-likelihood by every regularized weight, at
    targets drawn from the model's own distribution: after 16, 32, 64, ...
    steps, and later so rarely that it costs about a tenth of the training.
    In between it moves the scales of the priors, each time by a factor of at
    most 1.65, towards those that the data support (Immer et al., 2021, call
    this online marginal-likelihood training). It logs the number of effective
    weights of an epoch as `effective_weights`.

    The evidence says nothing about weights whose size means nothing, such as
    a kernel in front of batch normalisation. They are found in the graph of
    a functional model that SGD trains, or by their gradients, after 16 steps.
    There `DRidge` takes the weight decay that suits the length of the
    training: the learning rate times the strength, summed over all steps, is
    5. The other weights are then measured more rarely.

    In a stock model, name the likelihood whose prediction the model returns:

    ```python
    model.compile("adam", loss="sparse_categorical_crossentropy")
    measured = kl.regularizers.MeasuredCurvature(x, likelihood="softmax")
    model.fit(x, y, callbacks=[measured])
    ```

    Args:
        x: inputs to measure with: what is given to `fit`, or a part of it.
        y: their targets, from which `DRidge` learns how far the classes of a
            linear classifier or a network are apart.
        likelihood: name of a likelihood or its class. Defaults to those of
            the model's losses.
        examples: number of inputs that one measurement uses at most.
        seed: of the drawn targets.
        **parameters: values of the likelihood's parameters, by name.
    """

    def __init__(
        self,
        x,
        y=None,
        *,
        likelihood=None,
        examples: int = 1024,
        seed=0,
        **parameters,
    ):
        super().__init__()
        self._inputs = ExampleInputs(x, examples, seed, y)
        self._likelihood = likelihood and likelihoods.get(likelihood)
        self._known = parameters
        self._seed = seed
        self._weights: list = []
        self._measured: list = []
        self._drawn: tuple | None = None
        self._rates: Rates | None = None

    def take_scales(self, model, steps: int):
        """Keeps the scales that it will move out of an unbuilt optimizer.

        Args:
            model: a model that `fit` is about to train.
            steps: number of steps that `fit` will make.
        """
        optimizer = getattr(model, "optimizer", None)
        if optimizer is None or optimizer.built or not model.built:
            return
        will_move = steps >= _FIRST_STEP and self._can_measure(model)
        for weight in adaptive_weights(model):
            weight.regularizer.leave_optimizer(will_move)

    def _can_measure(self, model):
        known = self._likelihood or _likelihood_losses(model)
        return bool(known) and self._inputs.can_be_read

    def on_train_begin(self, logs=None):
        model, self._weights = self.model, []
        bind_noise(model)
        if not self._can_measure(model):
            for weight in adaptive_weights(model):
                weight.regularizer.speak_again()
            self._let_callback_move(False)
            return
        self._weights = self._measured = adaptive_weights(model)
        if self._weights:
            self._step = self._offset = self._moved_at = 0
            self._next_measure, self._next_move = _FIRST_STEP, _FIRST_STEP
            self._rates = None
            self._decays = Decays(
                model, self._weights, self._epoch_count, self._epoch_steps
            )
            self._start()
            self._classifier = linear_classifier(
                model,
                self._weights,
                self._outcomes,
                self._inputs.draw_with_targets,
            )
            self._chosen = None
            self._confidence = Confidence(
                model, self._outcomes, self._inputs.draw_with_targets
            )
            if self._decays.need_no_gradients:
                self._set_scale_free_apart()
                self._prepare()
        self._let_callback_move(self._steps_ahead() >= _FIRST_STEP)

    @property
    def _epoch_count(self):
        return (self.params or {}).get("epochs", 1)

    @property
    def _epoch_steps(self):
        """Those of an epoch, `None` if `fit` does not know them."""
        return (self.params or {}).get("steps")

    def _steps_ahead(self):
        return self._epoch_count * (self._epoch_steps or 0)

    def _let_callback_move(self, measured):
        """Takes what moves the scales into or out of the training step."""
        changed = [
            w.regularizer.follow_measurements(measured)
            for w in adaptive_weights(self.model)
        ]
        if any(changed) and getattr(self.model, "train_function", None):
            self.model.make_train_function(force=True)

    def _start(self):
        self._curvatures = [
            Curvature(w.shape, w.regularizer.num_examples)
            for w in self._measured
        ]
        self._factors = FisherFactors(
            self.model, self._measured, self._outcomes, self._seed
        )
        self._pause = self._steps_worth_a_measurement()
        sizes = [math.prod(w.shape) for w in self._measured]
        small = sum(s**3 for s in sizes if s <= LARGEST_MATRIX)
        self._move_pause = max(_MOVE_EVERY, int(small / 2e6))

    def on_train_batch_begin(self, batch, logs=None):
        # A callback with `on_train_batch_end` would make Keras read the loss
        # of every step, and so wait for an accelerator to end it.
        if self._weights and not self._waits_for_epoch_end():
            self._move_if_due(self._offset + batch)

    def _waits_for_epoch_end(self):
        # There Keras ends all steps anyway. Long epochs cannot wait.
        steps = self._epoch_steps or math.inf
        is_late = self._step >= self._move_pause >= steps
        return is_late and bool(self._decays)

    def on_epoch_end(self, epoch, logs=None):
        if not self._weights:
            return
        begun = self._step + 1 - self._offset
        self._offset += self._epoch_steps or begun
        self._move_if_due(self._offset)
        self._decays.keep()
        if logs is not None:
            # Weights without a size count nothing. Each question to an
            # accelerator makes it wait.
            logs["effective_weights"] = sum(
                w.regularizer.effective_weights(w) for w in self._measured
            )

    def _prepare(self):
        """Compiles the measurement while the training step is compiled."""
        if self._measured and self._steps_ahead() >= _FIRST_STEP:
            self._drawn = self._inputs.draw()
            self._factors.prepare(*self._drawn)

    def _move_if_due(self, step):
        self._step = step
        if step >= self._next_move:
            self._move()

    def _move(self):
        sync_variables(self.model)
        if not self._decays.is_sorted:
            self._set_scale_free_apart()
        self._decays.keep()
        if self._measured and self._step >= self._next_measure:
            self._measure()
            self._next_measure = self._step + min(self._step, self._pause)
        least = self._least_scale()
        target = self._chosen_scale()
        for weight, curvature in zip(
            self._measured, self._curvatures, strict=True
        ):
            for _ in range(self._moves_due() if curvature.is_known else 0):
                weight.regularizer.settle(
                    curvature,
                    least=least(weight.regularizer),
                    target=target,
                    factor=self._confidence.factor,
                )
        self._moved_at = self._step
        self._next_move = self._step + min(self._step, self._move_pause)

    def _chosen_scale(self):
        """The scale of a linear classifier; `None` if it is none."""
        if self._classifier and self._chosen is None:
            self._chosen = self._classifier.best_scale()
        return self._chosen

    def _moves_due(self):
        # With `steps_per_execution` many steps pass between two calls.
        passed = (self._step - self._moved_at) // self._move_pause
        return min(max(passed, 1), _MOST_MOVES)

    def _set_scale_free_apart(self):
        rest = self._decays.set_apart(
            lambda weights: self._factors.scale_free(
                *self._inputs.draw(), weights
            )
        )
        if self._decays:
            self._measured = rest
            self._start()
            # Most of the network now runs for the sake of few weights. The
            # number of gradients counts, not that of the examples in each.
            self._pause *= 8
            # To move a scale, an accelerator must first end all its steps.
            self._move_pause *= 8
            self._inputs.largest = min(
                self._inputs.largest, 16 * self._factors.batches
            )

    def _measure(self):
        drawn, self._drawn = self._drawn or self._inputs.draw(), None
        found = self._factors.measure(*drawn)
        for weight, curvature, pair in zip(
            self._measured, self._curvatures, found, strict=True
        ):
            noise = weight.regularizer._current_noise()
            curvature.update(*pair, noise=noise)
        if not self._decays:
            self._confidence.update(self._measured, self._curvatures)

    def _outcomes(self, output):
        if self._likelihood:
            found = distribution_of(self._likelihood, output, known=self._known)
            return [(found, not split_output(output)[1], 1.0)]
        losses = _likelihood_losses(self.model)
        outcomes = []
        for key, (loss, weight) in losses.items():
            part = output[key] if key else output
            alone = not split_output(part)[1]
            outcomes.append((loss.distribution(part), alone, weight))
        return outcomes

    def _least_scale(self):
        """The scale below which plain SGD would not bear the penalty.

        A penalty of curvature `c` is stable under SGD for `rate * c < 2`, with
        momentum for more. Optimizers that normalise their steps bear any.
        """
        optimizer = getattr(self.model, "optimizer", None)
        if not isinstance(optimizer, keras.optimizers.SGD):
            return lambda regularizer: 0.0
        self._rates = self._rates or Rates(optimizer)
        (rate,) = self._rates.ahead([0])

        def least(regularizer):
            # Below this one the step would overshoot zero by half.
            return math.sqrt(
                2.0 * rate * regularizer._factor / regularizer.num_examples
            )

        return least

    def _steps_worth_a_measurement(self):
        batches = self._factors.batches
        cubes = sum(
            n**3
            for w in self._measured
            for n in matrix_shape(w.shape)
            if n <= LARGEST_FACTOR
        )
        # One gradient of a small batch counts as a quarter of a step.
        return int(10 * (0.25 * batches + cubes / 1e8)) + _SHORTEST


def _likelihood_losses(model) -> dict:
    """`(loss, its weight)` by output key, "" for the one of a model.

    Empty if a part of the loss is no likelihood or needs the index of each
    example, since no target can be drawn then.
    """
    loss = getattr(model, "loss", None)
    weight_of = getattr(model, "loss_weight", lambda key: None)
    losses = loss if isinstance(loss, dict) else {"": loss}
    found = {}
    value: Any
    for key, value in losses.items():
        if not hasattr(value, "distribution") or value.data_parameters:
            return {}
        weight = weight_of(key)
        found[key] = value, 1.0 if weight is None else float(weight)
    return found
