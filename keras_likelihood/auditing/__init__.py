"""Data audits: the report, the decisions of a person, and own networks.

The audit itself is `kl.audit`.
"""

from keras_likelihood.auditing.decisions import apply
from keras_likelihood.auditing.own_network import train_for_audit
from keras_likelihood.auditing.report import AuditReport, find_label_issues
from keras_likelihood.tables.number_table import fill_missing

__all__ = [
    "AuditReport",
    "apply",
    "fill_missing",
    "find_label_issues",
    "train_for_audit",
]
