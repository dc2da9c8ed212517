"""The data audit: a page on which a person sees their bad data."""

from keras_likelihood.auditing.audit import audit
from keras_likelihood.auditing.decisions import apply
from keras_likelihood.auditing.label_issues import (
    class_thresholds,
    confident_classes,
    find_label_issues,
)
from keras_likelihood.auditing.report import AuditReport

# Users write `kl.audit.apply`, beside the `kl.audit` it belongs to.
audit.apply = apply  # type: ignore[attr-defined]

__all__ = [
    "AuditReport",
    "apply",
    "audit",
    "class_thresholds",
    "confident_classes",
    "find_label_issues",
]
