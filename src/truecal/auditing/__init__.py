"""Does a metric reward lying: small worlds, ways to lie in them, exact expectations, and a verdict with its proof."""

from truecal.auditing.outcome import AuditReport
from truecal.auditing.procedure import audit

__all__ = ["AuditReport", "audit"]
