"""Penalty strengths that maximise the evidence.

A group of weights has a normal prior of precision alpha around zero. In the
Laplace approximation the evidence has its maximum at MacKay's fixed point

    gamma = sum_j lambda_j / (lambda_j + alpha),    alpha = gamma / |theta|^2

where lambda_j are the eigenvalues of the curvature of the group and gamma is
the effective number of weights. Regularizers and recalibrators use the same
curvature and the same fixed point. All arrays are float64 NumPy.
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
