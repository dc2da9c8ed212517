"""The data audit: a page on which a person sees their bad data."""

from keras_likelihood.auditing.audit import audit
from keras_likelihood.auditing.label_issues import (
    class_thresholds,
    confident_classes,
    find_label_issues,
)
from keras_likelihood.auditing.report import AuditReport

__all__ = [
    "AuditReport",
    "audit",
    "class_thresholds",
    "confident_classes",
    "find_label_issues",
]
