"""Does a metric reward misreporting? Small worlds, misreports, exact expectations, and verdicts with proofs."""

from truecal.auditing.outcome import AuditReport
from truecal.auditing.procedure import audit

__all__ = ["AuditReport", "audit"]
