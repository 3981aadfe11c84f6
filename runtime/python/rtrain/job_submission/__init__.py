"""Submits programs to the cluster and follows them, under the names of Ray's job submission. A job is a run."""

from rtrain.job_submission._client import JobDetails, JobInfo, JobStatus, JobSubmissionClient, JobType

__all__ = ["JobDetails", "JobInfo", "JobStatus", "JobSubmissionClient", "JobType"]
