"""The folder of a job's Parquet, wherever Spark itself writes: by Hadoop's file systems, so that a
path without a scheme is on the cluster's default one, as it is for Spark. On the driver only."""

from typing import Any

from spark_bridge.job import JobFailed
from spark_bridge.session import gateway

_UNFINISHED = "_unfinished"  # Spark reads no folder of such a name


class Output:
    """A folder of folders, each of one run of the job."""

    def __init__(self, location: str) -> None:
        """For the session that `open_session` has opened."""
        jvm = gateway().jvm  # Hadoop has no other door in Python
        configuration = jvm.org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files: Any = self._path(location).getFileSystem(configuration)
        self._location = location

    @property
    def unfinished(self) -> str:
        """What is written there nobody reads: it gets its name when all is in it."""
        return f"{self._location}/{_UNFINISHED}"

    def names(self) -> list[str]:
        """None, if it is not there."""
        folder = self._path(self._location)
        there = self._files.listStatus(folder) if self._files.exists(folder) else []
        return [each.getPath().getName() for each in there]

    def finish(self, name: str) -> None:
        """Give the unfinished folder its name. Raises JobFailed."""
        named = self._path(f"{self._location}/{name}")
        if self._files.exists(named) or not self._files.rename(self._path(self.unfinished), named):
            raise JobFailed(
                f"{self.unfinished} is complete, but cannot be renamed to {name}: rename it."
            )

    def drop_unfinished(self) -> None:
        self._files.delete(self._path(self.unfinished), True)
