"""Strengths of penalties that maximise the evidence of the data.

A group of weights has a normal prior of precision alpha around zero. In
Laplace's approximation the evidence has its maximum at MacKay's fixed point

    gamma = sum_j lambda_j / (lambda_j + alpha),    alpha = gamma / |theta|^2

where lambda_j are the eigenvalues of the curvature of the group. `gamma`
counts the weights that the data determine. Regularizers and recalibrators use
the same curvature and the same fixed point. All is NumPy in float64.
"""

from keras_likelihood.evidence.curvature import Curvature
from keras_likelihood.evidence.penalised_fit import (
    EvidenceFit,
    fit_by_evidence,
    fit_penalised,
    minimise,
)

__all__ = [
    "Curvature",
    "EvidenceFit",
    "fit_by_evidence",
    "fit_penalised",
    "minimise",
]
