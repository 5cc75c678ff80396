# SPDX-License-Identifier: Apache-2.0
"""URLs ``pawl://PATH`` for whatever reads and writes files through fsspec.

::

    with fsspec.open("pawl:///data/runs/a/model.pt", "wb") as file:
        torch.save(model.state_dict(), file)
    Trainer(default_root_dir="pawl:///data/runs/a")

A file that is written so is there whole or not at all, at every instant, and is durable when ``close``
returns. What is read is not verified: that is done by `pawl.torch.Checkpointer`, `pawl.torch.save`,
`pawl.torch.lightning.CheckpointIO` and `pawl.torch.Writer`, in directories of their own.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ._whole import BLOCK, TEMPORARY, File, explained, is_run, refusal, refuse_in_steps, sync_directory

__all__ = ["FileSystem"]


class _Text(io.TextIOWrapper):
    def __exit__(self, *_: object) -> None:  # a frame that `_leaving` finds
        self.close()

    def __del__(self) -> None:
        """Does not close it, as io's would: the file is given up, and says so."""


class FileSystem(LocalFileSystem):  # type: ignore[misc]
    """Local and mounted directories as ``pawl://PATH``: ``pawl:///absolute``, ``pawl://relative``.

    A file that is written appears whole, under its name, when it is closed or its transaction is committed,
    and is durable then. Until then, and after a failure or an exception in its ``with`` block, what was
    there before stays. Modes are ``rb``, ``wb``, ``xb`` and ``ab``, which copies what is there first. Checkpoints
    of runs are read only.

    Args:
        auto_mkdir: whether directories are made for a file that is written [False].
    """

    protocol = "pawl"

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Opens a file, as every filesystem of fsspec does.

        Raises:
            UsageError: the mode is one that changes a file in place, or the file belongs to a checkpoint.
            Error: why it cannot be written; also a write and ``close`` raise it.
        """
        if compression is not None and "r" not in mode:
            then = "fsspec.open(url, mode, compression=...), which closes it, too"
            raise refusal(f"{path} is not written: what compresses would not close it", str(path), then)
        if "r" in mode or "b" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        return _Text(super().open(path, mode.replace("t", "") + "b", block_size, cache_options, **kwargs), **text)

    def _open(self, path: Any, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        if "r" in mode and "+" not in mode:
            return super()._open(path, mode, block_size, **kwargs)
        if "r" in mode:
            then = 'read it ("rb") and write it anew ("wb")'
            raise refusal(f'{path} is not opened as "{mode}": files are never changed in place', path, then)
        if self.auto_mkdir:
            self.makedirs(self._parent(path), exist_ok=True)
        before = self._pending(path) if "a" in mode and not autocommit else None
        file = File(path, "x" in mode, autocommit)
        if before is None and "a" in mode and os.path.exists(path):
            before = path
        if before is not None:
            try:
                _copy(before, file)
            except BaseException:
                file.discard()
                raise
        return file

    def _pending(self, path: str) -> str | None:
        """What the transaction has written last under that name, and not let appear yet."""
        files = [file for file in self.transaction.files if isinstance(file, File) and file.is_of(path)]
        return files[-1].temporary if files else None

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Copies a file, which appears whole; of a directory, makes one of that name."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if os.path.isdir(source):
            self.makedirs(target, exist_ok=True)
        else:
            with self.open(target, "wb") as file:
                _copy(source, file)

    def mv(self, path1: Any, path2: Any, recursive: bool = True, **kwargs: Any) -> None:
        """Renames a file or a directory, durably; a file also to another filesystem."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.auto_mkdir:
            self.makedirs(self._parent(target), exist_ok=True)
        if os.path.isdir(target):
            target = os.path.join(target, os.path.basename(source))
        what = f"{source} is not moved to {target}"
        with explained(what, target):
            refuse_in_steps(source, what)
            refuse_in_steps(target, what)
            if os.path.exists(target) and not os.access(target, os.W_OK):  # a rename would not ask
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                if os.path.isdir(source):
                    raise refusal(f"{what}: another filesystem", source, "copy(..., recursive=True), then rm") from None
                with self.open(target, "wb", autocommit=True) as file:
                    _copy(source, file)
                shutil.copystat(source, target)
                os.unlink(source)
            for directory in (target, source):
                sync_directory(os.path.dirname(directory))

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        """Makes a directory and those above it, durably."""
        path = self._strip_protocol(path)
        refuse_in_steps(path, f"{path} is not made")
        missing = [path]
        while not os.path.isdir(missing[-1]):
            missing.append(os.path.dirname(missing[-1]))
        with explained(f"{path} is not made", path):
            os.makedirs(path, exist_ok=exist_ok)
            for above in missing[1:]:
                sync_directory(above)

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        """Makes a directory, durably."""
        parent = self._parent(path)
        if not create_parents and not os.path.isdir(parent):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), parent)
        self.makedirs(path)

    def touch(self, path: Any, truncate: bool = True, **kwargs: Any) -> None:
        """Makes a file empty, or with ``truncate=False`` new in time."""
        if truncate or not self.exists(path):
            with self.open(path, "wb"):
                pass
        else:
            path = self._strip_protocol(path)
            refuse_in_steps(path, f"{path} is not touched")
            os.utime(path)

    def rmdir(self, path: Any) -> None:
        """Removes an empty directory."""
        path = self._strip_protocol(path)
        refuse_in_steps(path, f"{path} is not removed")
        super().rmdir(path)

    def link(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """Makes another name of a file."""
        self._refuse_link(dst)
        super().link(src, dst, **kwargs)

    def symlink(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """Makes a name that leads to another one."""
        self._refuse_link(dst)
        super().symlink(src, dst, **kwargs)

    def _refuse_link(self, path: Any) -> None:
        path = self._strip_protocol(path)
        refuse_in_steps(path, f"{path} is not made")

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, or directories with all that is in them.

        Raises:
            UsageError: a directory is a run or has one in it, or something belongs to a checkpoint. Nothing
                is removed.
        """
        paths = [self._strip_protocol(one) for one in (path if isinstance(path, list) else [path])]
        for one in paths:
            refuse_in_steps(one, f"{one} is not removed")
            for directory, _, _ in os.walk(one) if recursive and not os.path.islink(one) else ():
                if is_run(directory):
                    then = f"pawl rm {directory}@STEP removes a checkpoint; rm -r {directory} removes all of them"
                    raise refusal(f"{one} is not removed: {directory} is a run", directory, then)
        super().rm(paths, recursive, maxdepth)

    def rm_file(self, path: Any) -> None:
        """Removes a file."""
        self.rm(path)

    def ls(self, path: Any, detail: bool = False, **kwargs: Any) -> list[Any]:
        """What is in a directory, without files that are being written."""
        found = super().ls(path, detail=detail, **kwargs)
        return [one for one in found if not _is_temporary(one["name"] if detail else one)]

    def info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        """What is known of a file or directory."""
        if not isinstance(path, os.DirEntry) and _is_temporary(self._strip_protocol(path)):
            raise FileNotFoundError(errno.ENOENT, "still being written", path)
        found: dict[str, Any] = super().info(path, **kwargs)
        return found

    def isfile(self, path: Any) -> bool:
        """Whether there is such a file."""
        return not _is_temporary(self._strip_protocol(path)) and bool(super().isfile(path))

    def lexists(self, path: Any, **kwargs: Any) -> bool:
        """Whether there is such a name, if only a link that leads nowhere."""
        path = self._strip_protocol(path)
        return not _is_temporary(path) and os.path.lexists(path)


def _is_temporary(path: str) -> bool:
    return TEMPORARY.fullmatch(os.path.basename(path)) is not None


def _copy(path: str, file: Any) -> None:
    with open(path, "rb") as source:
        shutil.copyfileobj(source, file, BLOCK)


fsspec.register_implementation("pawl", FileSystem, clobber=True)
