"""OpenAPI documents of everything that is served: version 3 per group version, version 2 as one document.

kubectl needs version 3 for apply and explain (1.29 and later), version 2 in protobuf form up to 1.28. Documents depend
only on the table of kinds; the caller caches them until the table changes.
"""

from kube_standin.openapi.documents import v2_document, v3_document, v3_index
from kube_standin.openapi.gnostic import v2_protobuf

__all__ = ["v2_document", "v2_protobuf", "v3_document", "v3_index"]
