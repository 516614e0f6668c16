"""Whatever the session's Hadoop file systems know: ``hdfs://``, ``s3a://``, ``abfss://`` and others, through the JVM.

Opened on the driver only, where the JVM is; workers hand their data to the driver. A file is written under another
name, synced and renamed without overwriting, which the name node decides in one step. Where a file system says that it
has conditional creation (S3A of Hadoop 3.5), it is asked for that instead. Object stores without it are refused: their
rename is a copy that two writers can both finish.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import StoreUnsupportedError
from .java_errors import ALREADY_THERE, MISSING, classes_of, java_errors, named
from .tree import LEFTOVER_AGE_S, WRITING, TreeFile, TreeStore

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONDITIONAL = "fs.option.create.conditional.overwrite"
#: Schemes whose rename is a copy and a deletion.
_RENAME_COPIES = frozenset({"s3a", "s3n", "s3", "gs", "gcs", "oss", "obs", "cosn", "swift", "wasb", "wasbs"})
#: Larger data goes from and to the JVM by a file: 60 MB/s, against 17 (in) and 7 (out) in Py4J's own text.
BY_FILE_FROM_BYTES = 256 * 1024
_COPY_BYTES = 1024 * 1024


class HadoopStore(TreeStore):
    """Objects as files below a path of a Hadoop file system."""

    reachable_from_workers = False

    def __init__(self, uri: str, spark: Any, *, writable: bool = True) -> None:
        super().__init__(uri.rstrip("/"))
        self._gateway = _gateway_of(spark, uri)
        self._hadoop = self._gateway.jvm.org.apache.hadoop
        self._java_errors = java_errors()
        with named("open", self.address):
            root = self._path("")
            configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
            self._files = root.getFileSystem(configuration)
            self._conditional = bool(self._files.hasPathCapability(root, _CONDITIONAL))
            if not self._conditional:
                self._refuse_copies(uri.partition(":")[0].lower())
                self._context = self._hadoop.fs.FileContext.getFileContext(root.toUri(), configuration)
                self._no_overwrite = self._gateway.new_array(getattr(self._hadoop.fs, "Options$Rename"), 0)
            if writable:
                self._try_and_tidy(root)
            else:
                self._files.getFileStatus(root)

    def _create(self, path: str, data: bytes) -> bool:
        with named("write", self.address, path):
            target = self._path(path)
            if self._files.exists(target):
                return False
            return self._create_if_absent(target, data) if self._conditional else self._rename_new(target, data)

    def _create_if_absent(self, target: Any, data: bytes) -> bool:
        # must(): a file system that does not know the option fails, where opt() would overwrite.
        builder = self._files.createFile(target).recursive().must(_CONDITIONAL, True)
        try:
            self._fill(builder.build(), data)
        except self._java_errors as error:
            if classes_of(error) & ALREADY_THERE:
                return False
            raise
        return True

    def _rename_new(self, target: Any, data: bytes) -> bool:
        written = self._hadoop.fs.Path(target.getParent(), f"{WRITING}{uuid.uuid4().hex}")
        try:
            self._fill(self._files.create(written, False), data)
            try:
                self._context.rename(written, target, self._no_overwrite)
            except self._java_errors as error:
                if classes_of(error) & ALREADY_THERE:
                    return False
                raise
        finally:
            with contextlib.suppress(*self._java_errors):
                self._files.delete(written, False)
        return True

    def _fill(self, stream: Any, data: bytes) -> None:
        """Write data and close. What is not closed properly has no name yet, so it needs no undoing."""
        if len(data) < BY_FILE_FROM_BYTES:
            stream.write(bytearray(data))
        else:
            with tempfile.NamedTemporaryFile(prefix="tailrace-") as file:
                file.write(data)
                file.flush()
                source = self._gateway.jvm.java.io.FileInputStream(file.name)
                try:
                    self._hadoop.io.IOUtils.copyBytes(source, stream, _COPY_BYTES, False)
                finally:
                    source.close()
        if stream.hasCapability("hsync"):
            stream.hsync()
        stream.close()

    def _read(self, path: str) -> bytes:
        with named("read", self.address, path):
            source = self._path(path)
            if self._files.getFileStatus(source).getLen() >= BY_FILE_FROM_BYTES:
                return self._read_by_file(source)
            stream = self._files.open(source)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def _read_by_file(self, source: Any) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
            file = Path(folder, "object")
            self._files.copyToLocalFile(False, source, self._hadoop.fs.Path(file.as_uri()), True)
            return file.read_bytes()

    def _remove(self, path: str) -> None:
        with named("delete", self.address, path):
            file = self._path(path)
            self._files.delete(file, False)
            folder, top = file.getParent(), self._path("")
            with contextlib.suppress(*self._java_errors):  # not empty: deletion is not recursive
                while not folder.equals(top) and self._files.delete(folder, False):
                    folder = folder.getParent()

    def _names(self, folder: str) -> Iterable[str]:
        with named("list", self.address, folder):
            try:
                return [each.getPath().getName() for each in self._files.listStatus(self._path(folder))]
            except self._java_errors as error:
                if classes_of(error) & MISSING:
                    return []
                raise

    def _walk(self, folder: str) -> Iterable[TreeFile]:
        with named("list", self.address, folder):
            top = self._path("").toUri()
            return [
                TreeFile(top.relativize(each.getPath().toUri()).getPath(), int(each.getLen()))
                for each in self._statuses(self._path(folder))
            ]

    def _statuses(self, folder: Any) -> list[Any]:
        found = []
        try:
            left = self._files.listFiles(folder, True)
            while left.hasNext():
                found.append(left.next())
        except self._java_errors as error:
            if not classes_of(error) & MISSING:
                raise
        return found

    def _path(self, path: str) -> Any:
        return self._hadoop.fs.Path(f"{self.address}/{path}")

    def _try_and_tidy(self, root: Any) -> None:
        """See that files can be written here, and remove old leftovers by the clock of whoever has the files."""
        self._files.mkdirs(root)
        if self._conditional:  # what is not closed is not there
            return
        written = self._hadoop.fs.Path(root, f"{WRITING}{uuid.uuid4().hex}")
        self._fill(self._files.create(written, False), b"")
        now_ms = self._files.getFileStatus(written).getModificationTime()
        self._files.delete(written, False)
        for status in self._statuses(root):
            age_s = (now_ms - status.getModificationTime()) / 1000
            if status.getPath().getName().startswith(WRITING) and age_s > LEFTOVER_AGE_S:
                self._files.delete(status.getPath(), False)

    def _refuse_copies(self, scheme: str) -> None:
        if scheme in _RENAME_COPIES:
            raise StoreUnsupportedError(
                f"Expected a file system that creates a file only if it is absent; {scheme}:// of this session's "
                "Hadoop cannot.",
                "Give the address as s3://, gs:// or az:// with tailrace[object-store], or use S3A of Hadoop 3.5.",
            )


def _gateway_of(spark: Any, uri: str) -> Any:
    context = getattr(spark, "_sc", None)
    if context is None or getattr(spark, "_jsparkSession", None) is None:
        raise StoreUnsupportedError(
            f"Expected a classic Spark session, whose JVM can open {uri}; found {type(spark).__module__}.",
            "Spark Connect has no JVM here: give an address as a path, s3://, gs:// or az://.",
        )
    return context._gateway  # noqa: SLF001
