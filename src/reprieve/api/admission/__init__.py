"""Admission as pure rules: (object, state) -> object or refusal.

The embedded API server and a plan call the same rules. `priorities` reads typed objects; `usage`, `quotas` and
`limit_ranges` read plain data, as an API server stores it.
"""

from reprieve.api.admission.priorities import DEFAULT_PRIORITY as DEFAULT_PRIORITY
from reprieve.api.admission.priorities import HIGHEST_USER_PRIORITY as HIGHEST_USER_PRIORITY
from reprieve.api.admission.priorities import NEVER as NEVER
from reprieve.api.admission.priorities import PREEMPT_LOWER as PREEMPT_LOWER
from reprieve.api.admission.priorities import PREEMPTION_PRIORITY as PREEMPTION_PRIORITY
from reprieve.api.admission.priorities import PREEMPTION_PRIORITY_CLASS as PREEMPTION_PRIORITY_CLASS
from reprieve.api.admission.priorities import SYSTEM_CLASSES as SYSTEM_CLASSES
from reprieve.api.admission.priorities import ObjectT as ObjectT
from reprieve.api.admission.priorities import PriorityAdmission as PriorityAdmission
from reprieve.api.admission.priorities import groups_with_default_priority as groups_with_default_priority
