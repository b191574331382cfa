"""Files beside the messages, on whatever file system Arrow knows: a path, file:, hdfs:, s3:, gs:"""

from typing import Any

from pyarrow import fs


def file_system(location: str) -> tuple[Any, str]:
    """The pyarrow.fs.FileSystem of a path or URI, and the path in it."""
    if "://" in location or location.startswith("file:"):
        found, path = fs.FileSystem.from_uri(location)
        return found, path
    return fs.LocalFileSystem(), location


def files_in(folder: str) -> list[Any]:
    """A pyarrow.fs.FileInfo of each; none, if the folder is not there."""
    files, root = file_system(folder)
    found: list[Any] = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    return found
