"""Textbook robust regression estimators, in NumPy.

LTS  least trimmed squares by FAST-LTS, one reweighting step
     (Rousseeuw and Van Driessen, 2006)
S    least bisquare scale of the residuals by fast-S, breakdown 50 %
     (Salibian-Barrera and Yohai, 2006)
MM   bisquare of efficiency 95 % from the S-estimate and with its scale
     (Yohai, 1987)
"""

import numpy as np
from scipy import stats

SUBSETS, STEPS, KEPT = 500, 2, 10
S_TUNING, MM_TUNING = 1.54764, 4.68506
"""Of the bisquare: breakdown of one half, and efficiency of 95 %."""


class _Linear:
    """Fits `coef_` by the subclass's `_solve`."""

    def fit(self, x, y):
        x, y = np.asarray(x, float), np.asarray(y, float)
        center, y_center = np.median(x, axis=0), np.median(y)
        spread, y_spread = _spread(x, center), _spread(y, y_center)
        inputs = np.column_stack([(x - center) / spread, np.ones(len(x))])
        rng = np.random.default_rng(0)
        b, _ = self._solve(inputs, (y - y_center) / y_spread, rng)
        self.coef_ = y_spread * b[:-1] / spread
        return self


def _spread(x, center):
    spread = np.median(np.abs(x - center), axis=0)
    return np.where(spread > 0, spread, 1.0)


class LTS(_Linear):
    """Least trimmed squares of the largest breakdown."""

    def _solve(self, x, y, rng):
        n, p = x.shape
        h = (n + p + 1) // 2
        b = _through_subsets(x, y, rng)
        for step in range(50):
            squares = (y - b @ x.T) ** 2
            kept = np.argpartition(squares, h - 1)[:, :h]
            if step in (0, STEPS):
                cost = np.take_along_axis(squares, kept, 1).sum(axis=1)
                best = np.argsort(cost, kind="stable")
                kept = kept[best[: SUBSETS if step == 0 else KEPT]]
            before, b = b, _least_squares(x[kept], y[kept])
            if step > STEPS and np.allclose(before, b, rtol=1e-10, atol=0):
                break
        squares = np.sort((y - b @ x.T) ** 2)[:, :h].sum(axis=1)
        b, scale = b[squares.argmin()], np.sqrt(squares.min() / h)
        q = stats.norm.ppf((1 + h / n) / 2)
        scale *= (1 - 2 * q * stats.norm.pdf(q) * n / h) ** -0.5
        good = np.abs(y - x @ b) <= stats.norm.ppf(0.9875) * scale + 1e-12
        return _least_squares(x[good], y[good]), scale


class S(_Linear):
    def _solve(self, x, y, rng):
        b = _through_subsets(x, y, rng)
        scale = None
        for step in range(50):
            residual = np.abs(y - b @ x.T)
            scale = _s_scale(residual, scale, 1 if step <= STEPS else 20)
            if step == STEPS:
                scale = _s_scale(residual, scale, 20)
                best = np.argsort(scale[:, 0], kind="stable")[:KEPT]
                residual, scale, b = residual[best], scale[best], b[best]
            before, b = b, _reweighted(x, y, residual, S_TUNING * scale)
            if step > STEPS and np.allclose(before, b, rtol=1e-8, atol=1e-12):
                break
        scale = _s_scale(np.abs(y - b @ x.T), scale, 50)[:, 0]
        return b[scale.argmin()], scale.min()


class MM(S):
    def _solve(self, x, y, rng):
        b, scale = super()._solve(x, y, rng)
        for _ in range(100):
            residual = np.abs(y - b @ x.T)
            before, b = b, _reweighted(x, y, residual, MM_TUNING * scale)
            if np.allclose(before, b, rtol=1e-10, atol=0):
                break
        return b, scale


def _through_subsets(x, y, rng):
    """Coefficients of planes through p rows each, `(SUBSETS, p)`."""
    n, p = x.shape
    rows = rng.random((SUBSETS, n)).argpartition(p - 1)[:, :p]
    return _least_squares(x[rows], y[rows])


def _least_squares(x, y):
    """By normal equations for stacks, `(..., n, p)` and `(..., n)`."""
    transposed = np.swapaxes(x, -1, -2)
    return _solved(transposed @ x, (transposed @ y[..., None])[..., 0])


def _reweighted(x, y, residual, reach):
    weight = np.clip(1 - (residual / (reach + 1e-300)) ** 2, 0, None) ** 2
    gram = (weight[..., None, :] * x.T) @ x
    return _solved(gram, (weight * y) @ x)


def _solved(gram, moment):
    trace = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    ridge = (1e-14 * trace + 1e-300) * np.eye(gram.shape[-1])
    return np.linalg.solve(gram + ridge, moment[..., None])[..., 0]


def _s_scale(residual, scale, steps):
    """Scales of which the mean bisquare is one half, `(..., 1)`."""
    if scale is None:
        scale = 1.4826 * np.median(residual, axis=-1, keepdims=True)
    scale = np.maximum(scale, 1e-300)
    for _ in range(steps):
        u = 1 - np.minimum((residual / (S_TUNING * scale)) ** 2, 1)
        mean = 1 - (u**3).mean(axis=-1, keepdims=True)
        before, scale = scale, scale * np.sqrt(2 * mean)
        if np.all(np.abs(scale - before) <= 1e-9 * before):
            break
    return scale
