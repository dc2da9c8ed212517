"""Data audits: find mislabeled examples and review them on a page."""

from keras_likelihood.auditing.audit import audit
from keras_likelihood.auditing.decisions import apply, mark_of
from keras_likelihood.auditing.inputs import fill_missing
from keras_likelihood.auditing.judging import AuditReport
from keras_likelihood.auditing.label_issues import (
    class_thresholds,
    confident_classes,
    find_label_issues,
)
from keras_likelihood.auditing.own_network import OwnNetwork, train_for_audit

# Users call `kl.audit.apply` after `kl.audit`.
audit.apply = apply  # type: ignore[attr-defined]

__all__ = [
    "AuditReport",
    "OwnNetwork",
    "apply",
    "audit",
    "class_thresholds",
    "confident_classes",
    "fill_missing",
    "find_label_issues",
    "mark_of",
    "train_for_audit",
]
