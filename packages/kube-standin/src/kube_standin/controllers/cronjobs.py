"""CronJobs: start Jobs by the clock and delete those beyond the history limits.

`kube_rules.controllers.cronjobs` decides. A Job is named after its scheduled time, so a controller that is killed
between creation and status update does not start a second one.
"""

from __future__ import annotations

import copy
from datetime import datetime

from kube_rules.controllers.cronjobs import cron_job_actions
from kube_rules.json import Json
from kube_standin.controllers.pod_owners import index_owners
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, ObjectView, SpecView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.metadata import key_of, owner_reference

_SOURCE = "cronjob-controller"


class CronJobs(Controller):
    """The controller of CronJobs; keys are theirs."""

    name = "cronjob"

    def connect(self) -> None:
        """Queue a CronJob when it or one of its Jobs changes."""
        context = self.context
        self.row: ServedKind = context.kind("batch/v1", "CronJob")
        self.job_row = context.kind("batch/v1", "Job")
        self.jobs = context.sources.of(self.job_row.storage_key, SpecView)
        index_owners(self.jobs)
        self._next_times: dict[Key, datetime] = {}
        context.sources.of(self.row.storage_key, ObjectView).add_handler(self._cron_job_changed)
        self.jobs.add_handler(self._job_changed)

    def _cron_job_changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        cron_job = new or old
        if cron_job is not None:
            self.queue(cron_job.metadata.key)

    def _job_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        for job in (old, new):
            owner = job.metadata.controller if job is not None else None
            if job is not None and owner is not None and owner.kind == "CronJob":
                self.queue((job.metadata.namespace, owner.name))

    def reconcile(self, key: Key) -> None:
        """Start, replace and delete Jobs, write the status, and queue the key for the next time."""
        cron_job = self.context.find(self.row, key)
        if cron_job is None:
            self._next_times.pop(key, None)
            return
        owned_jobs = self.jobs.by("owner", cron_job["metadata"]["uid"])
        jobs = [job for owned in owned_jobs if (job := self.context.find(self.job_row, owned.metadata.key)) is not None]
        actions = cron_job_actions(cron_job, jobs, self.context.now())
        for kind, reason, message in actions.events:
            self.context.event(cron_job, reason, message, kind, _SOURCE)
        for job in actions.deletes:
            uid = job["metadata"]["uid"]
            if self.context.delete(self.job_row, key_of(job), DeleteOptions(uid=uid, propagation="Background")):
                self.context.event(
                    cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}", source=_SOURCE
                )
        if actions.creates is not None:
            job = self._started(cron_job, copy.deepcopy(actions.creates))
            if job is not None:
                actions.status.setdefault("active", []).append(_reference(job))
        self.context.set_status(self.row, key, actions.status)
        due = actions.next_time
        if due is not None and self._next_times.get(key) != due:
            self._next_times[key] = due
            self.context.timers.at(due, lambda: self.queue(key))

    def _started(self, cron_job: Json, manifest: Json) -> Json | None:
        """Create a Job; None if another owner's Job has its name. Raises StatusError for all other refusals."""
        namespace, name = cron_job["metadata"]["namespace"], manifest["metadata"]["name"]
        manifest["metadata"]["ownerReferences"] = [owner_reference(cron_job)]
        try:
            job = self.context.create(self.job_row, namespace, manifest)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                existing = self.context.find(self.job_row, (namespace, name)) or {"metadata": {}}
                owners = existing["metadata"].get("ownerReferences") or ()
                return existing if any(owner.get("uid") == cron_job["metadata"]["uid"] for owner in owners) else None
            self.context.event(cron_job, "FailedCreate", f"Error creating job: {error}", "Warning", _SOURCE)
            raise
        self.context.event(cron_job, "SuccessfulCreate", f"Created job {name}", source=_SOURCE)
        return job


def _reference(job: Json) -> Json:
    metadata = job["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    return {"kind": "Job", "apiVersion": "batch/v1", **{name: metadata[name] for name in fields if name in metadata}}
