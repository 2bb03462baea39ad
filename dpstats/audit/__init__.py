"""Audits of privacy claims: black-box, by exact densities, and of declared sensitivities.

``dpstats.audit`` is also the name of the black-box auditor, the function users call as ``dp.audit(...)``; the tools
beside it are imported from here, as in ``from dpstats.audit import worst_cases``.
"""

from dpstats.audit.blackbox import AuditResult, audit
from dpstats.audit.exact import ExactResult, audit_exact
from dpstats.audit.sensitivity import Pair, SensitivityResult, sensitivity, worst_cases

__all__ = [
    "AuditResult",
    "ExactResult",
    "Pair",
    "SensitivityResult",
    "audit",
    "audit_exact",
    "sensitivity",
    "worst_cases",
]
