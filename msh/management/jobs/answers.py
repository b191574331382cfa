"""What a command says of the bulk job that it has begun."""

from msh.models import BulkJob


def begun(job: BulkJob) -> tuple[dict[str, object], str]:
    """In JSON, and for a person."""
    answer: dict[str, object] = {"job": job.pk, "total": job.total}
    return answer, f"bulk job {job.pk} begins with {job.total} rows; see `jobs {job.pk}`."
