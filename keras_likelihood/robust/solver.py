"""The minimum of a robust regression's objective."""

import dataclasses

import numpy as np
from scipy import optimize

from keras_likelihood.robust import starts
from keras_likelihood.robust.problem import Problem, Solution

_SCREENING_ROWS = 500


def solve(problem: Problem, rng) -> Solution:
    """The minimum reached from the best of several starts.

    A sample of the rows finds a minimum from each start. If the scale depends
    on y, the minimum with the smallest trimmed squares is chosen. Outliers
    cannot change this choice if they are fewer than half of the rows. By the
    objective itself a cluster of outliers would win from about a third of the
    rows on. If the scale depends on x alone, the minimum with the smallest
    objective is chosen.
    """
    plain = problem.shape == problem.criterion.plain_shape
    if problem.freedom == 0 or (plain and not problem.slopes):
        return _least_squares(problem)
    sample = problem
    if len(problem.x) > _SCREENING_ROWS:
        rows = starts.draw_rows(problem.weight, _SCREENING_ROWS, rng)
        sample = problem.at_rows(np.sort(rows))
    # The shape is fixed here. From a bad start a learned shape would treat all
    # rows as inliers, and the start would become a minimum.
    screening = problem.criterion.screening_shape
    guide = dataclasses.replace(sample, shape=screening)
    candidates = starts.find_starts(
        sample.x, sample.y, sample.weight, sample.criterion, rng
    )
    minima = _reweight(guide, candidates)
    if problem.slopes:
        return _least_objective(problem, sample, minima)
    found = np.array([minimum.coefficients for minimum in minima])
    squares = (sample.y - found @ sample.x.T) ** 2
    best = np.argmin(starts.trimmed_squares(squares, sample.weight))
    (best,) = _reweight(problem, found[[best]], steps=6)
    return _polish(problem, best)


def _least_objective(problem, sample, minima):
    """Continues every minimum on the sample, and the best on all rows."""
    followed = [
        _polish(
            sample,
            dataclasses.replace(minimum, shape=problem.shape),
            rough=True,
        )
        for minimum in _distinct(minima)
    ]
    return _polish(problem, min(followed, key=lambda found: found.value))


def _least_squares(problem):
    """Fits least squares, where only the floor of the scale is learned."""
    shape = problem.criterion.plain_shape
    if problem.shape is not None:
        shape = problem.shape
    slopes = np.zeros(problem.x.shape[1] - 1)
    root = np.sqrt(problem.weight)
    # Not by normal equations: the solution of minimum norm is needed if x is
    # rank-deficient.
    coefficients = np.linalg.lstsq(
        problem.x * root[:, None], problem.y * root, rcond=None
    )[0]
    residual = problem.y - problem.x @ coefficients
    variance = problem.weight @ residual**2 / (problem.freedom or np.inf)
    log_floor = np.log(max(variance, np.exp(2 * problem.lowest))) / 2
    point = coefficients, slopes, log_floor, shape
    return Solution(*point, problem.objective(*point)[0])


def _reweight(problem, coefficients, steps=12):
    """Updates coefficients, floor and shape in turn. The cost never rises.

    `coefficients` are starts, `(s, p)`, followed side by side. The slopes of
    the problem are not used.
    """
    x, y, weight, criterion = (
        problem.x,
        problem.y,
        problem.weight,
        problem.criterion,
    )
    lowest2 = np.exp(2 * problem.lowest)
    learned = problem.shape is None
    start = criterion.screening_shape if learned else problem.shape
    shape = np.full((len(coefficients), 1), start)
    squares = (y - coefficients @ x.T) ** 2
    floor2 = starts.MIDDLE * starts.weighted_median(squares, weight)
    floor2 = np.maximum(floor2[:, None], lowest2)
    for step in range(steps):
        if learned and step % 3 == 2:
            shape = _best_shapes(problem, squares / floor2)
        influence = weight * criterion.weight(squares / floor2, shape)
        coefficients = starts.weighted_least_squares(x, y, influence)
        squares = (y - coefficients @ x.T) ** 2
        floor2 = (influence * squares).sum(axis=1, keepdims=True)
        floor2 = np.maximum(floor2 / problem.freedom, lowest2)
    slopes = np.zeros(x.shape[1] - 1)
    points = zip(
        coefficients, np.log(floor2[:, 0]) / 2, shape[:, 0], strict=True
    )
    return [
        Solution(b, slopes, c, k, problem.objective(b, slopes, c, k)[0])
        for b, c, k in points
    ]


def _best_shapes(problem, q):
    """The best of a grid of shapes for each row of `q`, `(s, 1)`."""
    criterion = problem.criterion
    costs = [
        criterion.rho(q, shape) @ problem.weight
        + problem.total * criterion.log_normaliser(shape)[0]
        + problem.restraint * shape**2
        for shape in criterion.grid
    ]
    return criterion.grid[np.argmin(costs, axis=0)][:, None]


def _distinct(solutions):
    """The solutions without repetitions, the lowest value first."""
    kept = []
    for solution in sorted(solutions, key=lambda s: s.value):
        near = (
            np.abs(solution.coefficients - other.coefficients).max()
            < 0.2 * np.exp(other.log_floor)
            for other in kept
        )
        if not any(near):
            kept.append(solution)
    return kept


def _polish(problem, start, *, rough=False):
    """L-BFGS with exact gradients, in coordinates of unit curvature."""
    p = problem.x.shape[1]
    to_coefficients = _unit_curvature(problem, start)

    def unpack(z):
        coefficients = start.coefficients + to_coefficients @ z[:p]
        return coefficients, z[p:-2], z[-2], z[-1]

    def value_and_gradient(z):
        value, (by_b, *others) = problem.objective(*unpack(z))
        gradient = np.hstack([to_coefficients.T @ by_b, *others])
        return value / problem.total, gradient / problem.total

    begin = np.hstack([np.zeros(p), start.slopes, start.log_floor, start.shape])
    result = optimize.minimize(
        value_and_gradient,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=_bounds(problem, start),
        options={
            "maxiter": 30 if rough else 500,
            "ftol": 1e-5 if rough else 1e-15,
            "gtol": 1e-3 if rough else 1e-8,
        },
    )
    return Solution(*unpack(result.x), result.fun * problem.total)


def _unit_curvature(problem, start):
    """Matrix from coordinates in which the curvature is about one."""
    floor = np.exp(start.log_floor)
    residual = problem.y - problem.x @ start.coefficients
    weight = problem.criterion.weight((residual / floor) ** 2, start.shape)
    weight = weight * problem.weight / problem.total
    gram = (problem.x * weight[:, None]).T @ problem.x
    gram += 1e-12 * np.trace(gram) * np.eye(len(gram))
    return floor * np.linalg.inv(np.linalg.cholesky(gram)).T


def _bounds(problem, start):
    p = problem.x.shape[1]
    free = (None, None)
    of_slopes = free if problem.slopes else (0.0, 0.0)
    of_shape = (start.shape, start.shape)
    if problem.shape is None:
        of_shape = problem.criterion.bounds
    return (
        [free] * p
        + [of_slopes] * (p - 1)
        + [
            (problem.lowest, None),
            of_shape,
        ]
    )
