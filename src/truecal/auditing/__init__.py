"""Does a metric reward lying: small worlds, ways to lie, exact expectations, and verdicts with proofs."""

from truecal.auditing.outcome import AuditReport
from truecal.auditing.procedure import audit

__all__ = ["AuditReport", "audit"]
