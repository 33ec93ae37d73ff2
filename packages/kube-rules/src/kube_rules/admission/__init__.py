"""Admission as pure rules: (object, state) -> object or refusal.

The embedded API server and a plan call the same rules. `priorities` reads typed objects; `usage`, `quotas`,
`limit_ranges` and `runtime_classes` read plain data, as an API server stores it.
"""

from kube_rules.admission.priorities import DEFAULT_PRIORITY as DEFAULT_PRIORITY
from kube_rules.admission.priorities import HIGHEST_USER_PRIORITY as HIGHEST_USER_PRIORITY
from kube_rules.admission.priorities import NEVER as NEVER
from kube_rules.admission.priorities import PREEMPT_LOWER as PREEMPT_LOWER
from kube_rules.admission.priorities import PREEMPTION_PRIORITY as PREEMPTION_PRIORITY
from kube_rules.admission.priorities import PREEMPTION_PRIORITY_CLASS as PREEMPTION_PRIORITY_CLASS
from kube_rules.admission.priorities import SYSTEM_CLASSES as SYSTEM_CLASSES
from kube_rules.admission.priorities import ObjectT as ObjectT
from kube_rules.admission.priorities import PriorityAdmission as PriorityAdmission
from kube_rules.admission.priorities import groups_with_default_priority as groups_with_default_priority
