# SPDX-License-Identifier: Apache-2.0
"""pawl:// for fsspec: files that are there whole or not at all, whatever happens to who writes them."""

import contextlib
import errno
import fcntl
import functools
import gc
import gzip
import io
import logging
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from unittest import mock

import support  # first: it finds the package
import fsspec
import lightning
import lightning.pytorch
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

import pawl
import pawl.fsspec
from pawl import _whole

for package in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(package).setLevel(logging.ERROR)

OLD, NEW = b"old" * 1000, b"new" * (1 << 20)


class Files(support.InDirectory):
    """A directory with one file, `OLD`, that tests try to replace."""

    def setUp(self):
        super().setUp()
        self.fs = fsspec.filesystem("pawl")
        self.path = self.directory / "a.bin"
        self.path.write_bytes(OLD)
        self.url = f"pawl://{self.path}"

    def hidden(self, directory=None):
        return [name for name in os.listdir(directory or self.directory) if name.startswith(".pawl-write-")]

    def assert_untouched(self):
        self.assertEqual(self.path.read_bytes(), OLD)
        self.assertEqual(self.hidden(), [])


class Written(Files):
    def test_it_appears_whole_when_it_is_closed(self):
        with fsspec.open(self.url, "wb") as file:
            file.write(NEW)
            self.assertEqual((file.name, file.mode), (str(self.path), "wb"))
            self.assertEqual(self.path.read_bytes(), OLD)
            self.assertEqual(len(self.hidden()), 1)
        self.assertEqual(self.path.read_bytes(), NEW)
        self.assertEqual(self.hidden(), [])

    def test_who_looks_does_not_see_what_is_being_written(self):
        with self.fs.open(self.url, "wb"):
            hidden = str(self.directory / self.hidden()[0])
            self.assertEqual(self.fs.ls(self.directory), [str(self.path)])
            self.assertEqual([one["name"] for one in self.fs.ls(self.directory, detail=True)], [str(self.path)])
            self.assertEqual(
                self.fs.glob(f"{self.directory}/*") + self.fs.glob(f"{self.directory}/.*"), [str(self.path)]
            )
            self.assertEqual(self.fs.find(self.directory), [str(self.path)])
            for asks in (self.fs.exists, self.fs.isfile, self.fs.lexists):
                self.assertEqual((asks(hidden), asks(str(self.path))), (False, True))

    def test_modes(self):
        with fsspec.open(self.url, "ab") as file:
            file.write(b"more")
            self.assertEqual(self.path.read_bytes(), OLD)
        self.assertEqual(self.path.read_bytes(), OLD + b"more")
        other = self.directory / "b.txt"
        with fsspec.open(f"pawl://{other}", "x") as file:
            file.write("é")
        with self.assertRaises(FileExistsError):
            self.fs.open(str(other), "xb")
        with self.fs.open(str(other), "a") as file:
            file.write("è")
        self.assertEqual(other.read_text(encoding="utf-8"), "éè")
        late = self.directory / "late"
        with self.assertRaises(FileExistsError):
            with self.fs.open(str(late), "xb") as file:
                late.write_bytes(OLD)
        self.assertEqual((late.read_bytes(), self.hidden()), (OLD, []))
        with self.fs.open(self.url, "wb") as file:
            file.write(b"0123")
            file.seek(1)
            file.write(b"x")
            file.truncate(3)
        self.assertEqual(self.path.read_bytes(), b"0x2")
        with self.assertRaisesRegex(pawl.UsageError, 'never changed in place(.|\n)*"wb"'):
            self.fs.open(self.url, "r+b")
        with self.assertRaisesRegex(pawl.UsageError, "fsspec.open"):
            self.fs.open(self.url, "wb", compression="gzip")
        with fsspec.open(self.url, "wt", compression="gzip") as file:
            file.write("text")
        self.assertEqual(gzip.decompress(self.path.read_bytes()), b"text")

    def test_relative_paths_links_and_rights(self):
        link = self.directory / "link"
        link.symlink_to(self.path)
        self.path.chmod(0o640)
        before = os.getcwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, before)
        with fsspec.open("pawl://link", "wb") as file:
            file.write(NEW)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.path.read_bytes(), NEW)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o640)
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        self.fs.pipe("pawl://made", b"x")
        self.assertEqual(stat.S_IMODE((self.directory / "made").stat().st_mode), 0o640)

    def test_what_is_no_file_stays(self):
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        with self.assertRaisesRegex(pawl.UsageError, "no regular file"):
            self.fs.open(str(fifo), "wb")
        with self.assertRaises(IsADirectoryError):
            self.fs.open(str(self.directory), "wb")
        with self.assertRaises(FileNotFoundError):
            self.fs.open(str(self.directory / "none" / "a"), "wb")
        self.assert_untouched()

    def test_two_writers_of_one_name(self):
        one, other = self.fs.open(self.url, "wb"), self.fs.open(self.url, "wb")
        one.write(NEW)
        other.write(NEW[::-1])
        other.close()
        self.assertEqual(self.path.read_bytes(), NEW[::-1])
        one.close()
        self.assertEqual(self.path.read_bytes(), NEW)

    def test_many_writers_and_a_reader(self):
        contents = [bytes([number]) * (200_000 + number) for number in range(4)]
        self.path.write_bytes(contents[0])
        problems, done = [], threading.Event()

        def write(content):
            try:
                for _ in range(10):
                    self.fs.pipe(str(self.path), content)
            except BaseException as error:
                problems.append(error)

        def read():
            while not done.is_set():
                found = self.path.read_bytes()
                if found not in contents:
                    problems.append(len(found))

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=write, args=(content,)) for content in contents]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
        self.assertEqual((problems, self.hidden()), ([], []))
        self.assertIn(self.path.read_bytes(), contents)


class Failures(Files):
    def test_an_exception_in_the_block(self):
        def opened(call, *arguments, **options):
            return functools.partial(call, *arguments, **options)

        class Owner:  # as pandas has its handles
            def __init__(self, file):
                self.file = file

            def __enter__(self):
                return self.file

            def __exit__(self, kind, value, trace):
                self.file.close()

        ways = {
            "fsspec, bytes": (opened(fsspec.open, self.url, "wb"), NEW),
            "fsspec, text": (opened(fsspec.open, self.url, "w"), "new"),
            "fsspec, compressed": (opened(fsspec.open, self.url, "wt", compression="gzip"), "new"),
            "filesystem, bytes": (opened(self.fs.open, self.url, "wb"), NEW),
            "filesystem, text": (opened(self.fs.open, self.url, "w"), "new"),
            "filesystem, more": (opened(self.fs.open, self.url, "ab"), NEW),
            "somebody else": (lambda: Owner(fsspec.open(self.url, "w").open()), "new"),
        }
        for error in (ValueError, KeyboardInterrupt, SystemExit):
            for name, (way, content) in ways.items():
                with self.subTest(way=name, error=error), self.assertRaises(error):
                    with way() as file:
                        file.write(content)
                        file.flush()
                        raise error
                self.assert_untouched()

    def test_an_exception_that_the_block_has_caught(self):
        for content, mode in ((NEW, "wb"), (NEW.decode(), "w")):
            for opened in (self.fs.open, fsspec.open):
                with self.subTest(mode=mode, opened=opened):
                    with contextlib.ExitStack() as stack:
                        file = stack.enter_context(opened(self.url, mode))
                        stack.enter_context(contextlib.suppress(ValueError))
                        file.write(content)
                        raise ValueError
                    self.assertEqual(self.path.read_bytes(), NEW)
                    self.path.write_bytes(OLD)
                    stack = contextlib.ExitStack()
                    stack.enter_context(opened(self.url, mode)).write(content)
                    try:
                        raise ValueError
                    except ValueError:
                        stack.close()
                    self.assertEqual(self.path.read_bytes(), NEW)
                    self.path.write_bytes(OLD)
                    with self.assertRaises(ValueError), contextlib.ExitStack() as stack:
                        stack.enter_context(opened(self.url, mode)).write(content)
                        raise ValueError
                    self.assert_untouched()

    def test_a_save_because_of_an_exception(self):
        try:
            raise ValueError
        except ValueError:
            with fsspec.open(self.url, "wb") as file:
                file.write(NEW)
                try:
                    raise KeyError
                except KeyError:
                    pass
        self.assertEqual(self.path.read_bytes(), NEW)

        class SavesWhatIsLeft:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace):
                with fsspec.open(url, "wb") as file:
                    file.write(OLD)

        url = self.url
        with self.assertRaises(ValueError), SavesWhatIsLeft():
            raise ValueError
        self.assert_untouched()

    def test_a_writer_that_is_never_closed(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            self.fs.open(self.url, "wb").write(NEW)
            gc.collect()
            self.fs.open(self.url, "w").write("new")
            gc.collect()
        self.assertEqual(len(caught), 2)
        for one in caught:
            self.assertRegex(str(one.message), r"a\.bin is not written: it was never closed")
        self.assert_untouched()
        self.assertEqual(self.hidden(), [])
        with warnings.catch_warnings(), mock.patch.object(sys, "unraisablehook", lambda _: None):
            warnings.simplefilter("error")
            self.fs.open(self.url, "wb").write(NEW)
            gc.collect()
        self.assert_untouched()
        self.assertEqual(self.hidden(), [])
        text = "import fsspec, pawl.fsspec, sys\nfile = fsspec.open(sys.argv[1], 'wb').open()\nfile.write(b'x')\n"
        self.program(text, self.url)
        self.assert_untouched()

    def test_a_forked_child_does_not_touch_it(self):
        with self.fs.open(self.url, "wb") as file:
            file.write(NEW[:10])
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    file.close()
                except pawl.UsageError:
                    code = 0
                os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            file.write(NEW[10:])
        self.assertEqual(self.path.read_bytes(), NEW)

    def test_a_killed_writer(self):
        text = (
            "import fsspec, pawl.fsspec, sys, time\n"
            "file = fsspec.open(sys.argv[1], 'wb').open()\n"
            "file.write(bytes(4 << 20))\nfile.flush()\nprint('written', flush=True)\ntime.sleep(600)\n"
        )
        program = self.directory / "program.py"
        program.write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE)}
        command = [sys.executable, program, self.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            try:
                self.assertEqual(process.stdout.readline(), b"written\n")
                leftover = self.hidden()
                self.fs.pipe(str(self.directory / "b"), b"x")
                self.assertEqual(self.hidden(), leftover, "a file was removed whose writer lives")
            finally:
                process.send_signal(signal.SIGKILL)
        self.assertEqual(self.path.read_bytes(), OLD)
        self.assertEqual(self.hidden(), leftover)
        self.assertFalse(self.fs.exists(str(self.directory / leftover[0])))
        foreign = re.sub(r"write-.*?-(\d+)-", r"write-another.host-\1-", leftover[0])
        (self.directory / foreign).write_bytes(b"x")
        with mock.patch.object(_whole, "LOOK_EVERY_S", 0.0):  # a minute has passed
            self.fs.pipe(str(self.directory / "b"), b"x")
        self.assertEqual(self.hidden(), [foreign], "of another host nobody knows here whether it lives")
        self.assertEqual(self.path.read_bytes(), OLD)

    def test_a_file_that_is_taken_for_a_leftover_before_it_is_locked(self):
        real, removed = fcntl.flock, []

        def flock(fd, how):
            if how == fcntl.LOCK_EX and not removed:  # another writer looked between creation and lock
                removed.extend(self.hidden())
                os.unlink(self.directory / removed[0])
            real(fd, how)

        with mock.patch.object(fcntl, "flock", flock):
            self.fs.pipe(str(self.path), NEW)
        self.assertEqual((self.path.read_bytes(), len(removed), self.hidden()), (NEW, 1, []))

    def test_killed_at_any_instant(self):
        """The name has one of the two contents, whole, whenever the writer is killed."""
        text = (
            "import fsspec, pawl.fsspec, sys\nfs = fsspec.filesystem('pawl')\nprint('ready', flush=True)\n"
            "while True:\n    for fill in b'ab':\n        fs.pipe(sys.argv[1], bytes([fill]) * 300_000)\n"
        )
        program = self.directory / "program.py"
        program.write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE)}
        allowed = {OLD, b"a" * 300_000, b"b" * 300_000}
        for number in range(8):
            with subprocess.Popen(
                [sys.executable, program, self.path], stdout=subprocess.PIPE, env=environment
            ) as process:
                process.stdout.readline()
                time.sleep(0.003 * number)
                process.kill()
            self.assertIn(self.path.read_bytes(), allowed)
        self.fs.pipe(str(self.path), OLD)
        self.assert_untouched()

    def test_a_limit_of_file_size(self):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
        try:
            for mode, content in (("wb", NEW), ("w", "new" * (1 << 20))):
                with self.assertRaises(pawl.NoSpace) as caught:
                    with fsspec.open(self.url, mode) as file:
                        file.write(content)
                self.assertEqual(caught.exception.errno, errno.EFBIG)
                self.assertRegex(str(caught.exception), r"a\.bin is not written(.|\n)*untouched(.|\n)*ulimit")
                self.assert_untouched()
            file = self.fs.open(self.url, "wb")
            with self.assertRaises(OSError):
                file.write(NEW)
            with self.assertRaises(pawl.NoSpace):  # of which a part is missing
                file.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assert_untouched()

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small filesystem")
        disk = self.directory / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no filesystem can be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        path = disk / "a.bin"
        self.fs.pipe(str(path), OLD)
        source = self.directory / "large"
        source.write_bytes(NEW)

        def save():
            with fsspec.open(f"pawl://{path}", "wb") as file:
                torch.save(torch.zeros(1 << 20), file)

        writes = (
            lambda: self.fs.pipe(str(path), NEW),
            lambda: self.fs.cp_file(str(source), str(path)),
            lambda: self.fs.put(str(source), str(path)),
            lambda: self.fs.mv(str(source), str(path)),
            save,
        )
        for write in writes:
            with self.subTest(write=write):
                with self.assertRaises(pawl.NoSpace):
                    write()
                self.assertEqual((path.read_bytes(), self.hidden(disk)), (OLD, []))
        self.assertEqual(source.read_bytes(), NEW)
        self.fs.mv(str(self.path), str(disk / "b"))  # to another filesystem
        self.assertEqual(((disk / "b").read_bytes(), self.path.exists()), (OLD, False))

    def test_no_permission(self):
        text = (
            "import os, sys, pawl.fsspec\n"
            "fs = pawl.fsspec.FileSystem()\n"
            "if os.geteuid() == 0:\n    os.setgroups([])\n    os.setgid(65534)\n    os.setuid(65534)\n"
            "for call in (lambda: fs.pipe(sys.argv[1], b'x'), lambda: fs.pipe(sys.argv[2], b'x'),\n"
            "             lambda: fs.makedirs(sys.argv[2]), lambda: fs.mv(sys.argv[1], sys.argv[2])):\n"
            "    try:\n        call()\n"
            "    except PermissionError as why:\n        print(type(why).__name__, why.path, why.errno)\n"
        )
        self.directory.chmod(0o755)
        self.path.chmod(0o444)
        done = self.program(text, self.path, self.directory / "new")
        self.assertEqual(done.stdout.split()[::3], ["PermissionDenied"] * 4, done.stdout + done.stderr)
        self.assert_untouched()

    def test_a_file_that_is_read_only_is_not_replaced(self):
        text = (
            "import os, sys, pawl.fsspec\n"
            "fs = pawl.fsspec.FileSystem()\n"
            "if os.geteuid() == 0:\n    os.setgroups([])\n    os.setgid(65534)\n    os.setuid(65534)\n"
            "try:\n    fs.pipe(sys.argv[1], b'x')\nexcept PermissionError as why:\n    print(why)\n"
        )
        self.directory.chmod(0o777)
        self.path.chmod(0o444)
        done = self.program(text, self.path)
        self.assertIn("is not written", done.stdout, done.stderr)
        self.assert_untouched()

    def test_storage_that_fails(self):
        """What cannot be synced does not appear; a write that was cut short is noticed."""
        real = os.fsync
        for fails_at, content, text in ((1, OLD, "is not written"), (2, NEW, "may not be durable")):
            with self.subTest(text=text):
                calls = []

                def fsync(fd, fails_at=fails_at, calls=calls):
                    calls.append(fd)
                    if len(calls) == fails_at:
                        raise OSError(errno.EIO, "Input/output error")
                    real(fd)

                with mock.patch.object(os, "fsync", fsync), self.assertRaisesRegex(pawl.StorageError, text):
                    self.fs.pipe(str(self.path), NEW)
                self.assertEqual((self.path.read_bytes(), self.hidden()), (content, []))
        self.path.write_bytes(OLD)
        for harm, text in ((lambda path: os.truncate(path, 5), "has 5 bytes"), (os.remove, "somebody removed")):
            with self.subTest(text=text), self.assertRaisesRegex(pawl.StorageError, text):
                with self.fs.open(self.url, "wb") as file:
                    file.write(NEW)
                    file.flush()
                    harm(self.directory / self.hidden()[0])
            self.assert_untouched()


class Durable(Files):
    """What reaches the storage, in which order, by wrapping the calls of the system."""

    def setUp(self):
        super().setUp()
        self.calls = []

        def noted(name, call, where):
            def wrapped(*arguments, **options):
                done = call(*arguments, **options)
                self.calls.append((name, *map(where, arguments[:1] if name == "mkdir" else arguments)))
                return done

            return wrapped

        def of_descriptor(fd):
            path = os.readlink(f"/proc/self/fd/{fd}") if isinstance(fd, int) else str(fd)
            return re.sub(r"\.pawl-write-.*", "TEMPORARY", os.path.relpath(path, self.directory))

        for name in ("fsync", "replace", "rename", "link", "mkdir", "unlink"):
            patch = mock.patch.object(os, name, noted(name, getattr(os, name), of_descriptor))
            patch.start()
            self.addCleanup(patch.stop)

    def made(self):
        calls, self.calls[:] = list(self.calls), []
        return calls

    def test_a_file(self):
        published = [("fsync", "TEMPORARY"), ("replace", "TEMPORARY", "a.bin"), ("fsync", ".")]
        with fsspec.open(self.url, "wb") as file:
            file.write(NEW)
        self.assertEqual(self.made(), published)
        with fsspec.open(self.url, "w") as file:
            file.write("x")
        self.assertEqual(self.made(), published)
        self.fs.touch(str(self.path))
        self.assertEqual(self.made(), published)
        self.fs.cp_file(str(self.path), str(self.directory / "b"))
        self.assertEqual(self.made(), [("fsync", "TEMPORARY"), ("replace", "TEMPORARY", "b"), ("fsync", ".")])
        with self.fs.open(str(self.directory / "c"), "xb"):
            pass
        exclusive = [("fsync", "TEMPORARY"), ("link", "TEMPORARY", "c"), ("unlink", "TEMPORARY"), ("fsync", ".")]
        self.assertEqual(self.made(), exclusive)

    def test_all_is_written_before_it_is_synced(self):
        sizes, real = [], os.fsync
        with mock.patch.object(os, "fsync", lambda fd: (sizes.append(os.fstat(fd).st_size), real(fd))):
            with fsspec.open(self.url, "wb") as file:
                file.write(NEW)
                file.write(b"x")
        self.assertEqual(sizes[0], len(NEW) + 1)

    def test_directories(self):
        self.fs.makedirs(str(self.directory / "x" / "y" / "z"))
        made = self.made()
        self.assertEqual([call[1] for call in made if call[0] == "mkdir"], ["x", "x/y", "x/y/z"])
        self.assertEqual(sorted(call[1] for call in made if call[0] == "fsync"), [".", "x", "x/y"])
        self.fs.mkdir(str(self.directory / "w"))
        self.assertIn(("fsync", "."), self.made())
        with self.assertRaises(FileExistsError):
            self.fs.mkdir(str(self.directory / "w"))
        with self.assertRaises(FileNotFoundError):
            self.fs.mkdir(str(self.directory / "v" / "v"), create_parents=False)
        self.made()
        pawl.fsspec.FileSystem(auto_mkdir=True).pipe(str(self.directory / "u" / "file"), b"x")
        self.assertEqual([call[1] for call in self.made() if call[0] == "fsync"], [".", "u/TEMPORARY", "u"])

    def test_a_move(self):
        (self.directory / "x").mkdir()
        self.made()
        self.fs.mv(str(self.path), str(self.directory / "x" / "b"))
        self.assertEqual(self.made(), [("rename", "a.bin", "x/b"), ("fsync", "x"), ("fsync", ".")])
        self.fs.rename(str(self.directory / "x"), str(self.directory / "y"))
        self.assertEqual(self.made(), [("rename", "x", "y"), ("fsync", "."), ("fsync", ".")])


class Transactions(Files):
    def test_files_appear_at_the_commit(self):
        with self.fs.transaction:
            self.fs.pipe(str(self.path), NEW)
            with self.fs.open(str(self.directory / "b"), "w") as file:
                file.write("x")
            self.fs.cp_file(str(self.path), str(self.directory / "c"))
            never = self.fs.open(str(self.directory / "d"), "wb")
            never.write(NEW)
            self.assertEqual(self.fs.ls(self.directory), [str(self.path)])
            self.assertEqual((self.path.read_bytes(), len(self.hidden())), (OLD, 4))
        found = {name: (self.directory / name).read_bytes() for name in os.listdir(self.directory)}
        self.assertEqual(found, {"a.bin": NEW, "b": b"x", "c": OLD, "d": NEW})

    def test_none_appears_when_it_is_discarded(self):
        with self.assertRaises(KeyError):
            with self.fs.transaction:
                self.fs.pipe(str(self.path), NEW)
                self.fs.pipe(str(self.directory / "b"), NEW)
                raise KeyError
        self.assert_untouched()
        self.assertEqual(os.listdir(self.directory), ["a.bin"])
        with self.fs.transaction:
            try:
                with self.fs.open(self.url, "wb"):
                    raise KeyError
            except KeyError:
                pass
        self.assert_untouched()

    def test_what_is_appended_to_is_what_the_transaction_wrote(self):
        for before in (OLD, None):
            with self.fs.transaction:
                with self.fs.open(self.url, "wb") as file:
                    file.write(b"first,")
                with self.fs.open(self.url, "ab") as file:
                    file.write(b"second")
                self.assertEqual(self.path.read_bytes() if self.path.exists() else None, before)
            self.assertEqual(self.path.read_bytes(), b"first,second")
            self.path.unlink()

    def test_a_commit_that_fails(self):
        (self.directory / "x").mkdir()
        with self.assertRaises(FileNotFoundError):
            with self.fs.transaction:
                self.fs.pipe(str(self.directory / "x" / "b"), NEW)
                self.fs.pipe(str(self.path), NEW)
                (self.directory / "x").rename(self.directory / "y")
        self.assert_untouched()
        self.fs.pipe(str(self.path), NEW)
        self.assertEqual(self.path.read_bytes(), NEW)


class Runs(Files):
    def test_checkpoints_of_a_run_stay(self):
        with pawl.Run(self.run_path, no_event_file=True) as run:
            run.save(pawl.State({"x": 1}), 3)
        before = sorted(str(path) for path in self.directory.rglob("*"))
        (self.directory / "link").symlink_to(self.run_path)
        step = self.run_path / "step-00000003"
        refused = {
            f"is a run(.|\n)*pawl rm {self.run_path}@STEP": (
                lambda: self.fs.rm(str(self.run_path), recursive=True),
                lambda: self.fs.rm([str(self.path), str(self.directory)], recursive=True),
            ),
            f"belongs to a checkpoint of the run(.|\n)*pawl rm {self.run_path}@3 ": (
                lambda: self.fs.rm(str(step), recursive=True),
                lambda: self.fs.rm_file(str(step / "manifest.json")),
                lambda: self.fs.pipe(f"pawl://{step}/notes", b"x"),
                lambda: self.fs.pipe(f"pawl://{self.directory}/link/step-00000003/manifest.json", b"x"),
                lambda: self.fs.mv(str(self.path), str(step)),
                lambda: self.fs.mv(str(step), str(self.directory / "moved")),
                lambda: self.fs.cp_file(str(self.path), str(step / "b")),
                lambda: self.fs.cp_file(str(self.directory), str(step / "b")),
                lambda: self.fs.makedirs(str(step / "b" / "c")),
                lambda: self.fs.mkdir(str(step / "b")),
                lambda: self.fs.rmdir(str(step)),
                lambda: self.fs.symlink(str(self.path), str(step / "b")),
                lambda: self.fs.link(str(self.path), str(step / "b")),
                lambda: self.fs.touch(str(step / "manifest.json"), truncate=False),
            ),
        }
        for text, calls in refused.items():
            for call in calls:
                with self.assertRaisesRegex(pawl.UsageError, text):
                    call()
        for call in (self.fs.touch, self.fs.mkdir):
            with self.assertRaisesRegex(pawl.UsageError, "belongs to a checkpoint of the run"):
                call(str(self.run_path / "step-00000004"))
        (self.directory / "link").unlink()
        self.assertEqual(sorted(str(path) for path in self.directory.rglob("*")), before)
        self.assertTrue(pawl.verify(self.run_path).ok)
        self.fs.mv(str(self.run_path), str(self.directory / "moved"))
        self.assertEqual([info.step for info in pawl.ls(self.directory / "moved")], [3])

    def test_directories_of_others_are_written_and_removed(self):
        step = self.directory / "step-00001000"
        self.fs.makedirs(str(step))
        self.fs.pipe(str(step / "model.pt"), b"x")
        self.fs.rm(str(step / "model.pt"))
        self.fs.rm(str(step), recursive=True)
        self.assertEqual(os.listdir(self.directory), ["a.bin"])


class Tools(Files):
    def test_without_importing_pawl(self):
        """By the entry point of pyproject.toml, as it is in the metadata of what is installed."""
        project = (support.SOURCE / "pyproject.toml").read_text(encoding="utf-8")
        name, value = re.search(r'entry-points\."fsspec\.specs"\]\n(\w+) = "([\w.:]+)"', project).groups()
        metadata = self.directory / "site" / "pawl-0.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pawl\nVersion: 0.0\n")
        (metadata / "entry_points.txt").write_text(f"[fsspec.specs]\n{name} = {value}\n")
        text = (
            "import fsspec, sys\nassert not any(name.startswith('pawl') for name in sys.modules)\n"
            "with fsspec.open(sys.argv[1], 'wb') as file:\n    file.write(b'x')\n    print(type(file).__module__)\n"
        )
        both = os.pathsep.join([str(metadata.parent), str(support.PACKAGE)])
        done = self.program(text, self.url, variables={"PYTHONPATH": both})
        self.assertEqual((done.stdout, self.path.read_bytes()), ("pawl._whole\n", b"x"))

    def test_pawl_does_not_import_fsspec(self):
        done = self.program("import pawl, sys\nprint('fsspec' in sys.modules)\n")
        self.assertEqual(done.stdout, "False\n")

    def test_the_program_of_the_page(self):
        page = (support.SOURCE / "docs" / "python.md").read_text(encoding="utf-8").partition("## pawl://")[2]
        program = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
        model = nn.Linear(2, 2)
        names = {"dcp": dcp, "fsspec": fsspec, "lightning": lightning, "torch": torch, "model": model}
        exec(program.replace("/data/runs/a", f"{self.directory}/a"), {**names, "state_dict": model.state_dict()})
        self.assert_same(torch.load(self.directory / "a" / "model.pt"), model.state_dict())
        found = nn.Linear(2, 2).state_dict()
        dcp.load(found, checkpoint_id=f"pawl://{self.directory}/a/checkpoint")
        self.assert_same(found, model.state_dict())

    def test_torch_save(self):
        expected = {"w": torch.randn(100, 100), "step": 3}
        for zipped in (True, False):
            with fsspec.open(self.url, "wb") as file:
                torch.save(expected, file, _use_new_zipfile_serialization=zipped)
            with fsspec.open(self.url, "rb") as file:
                self.assert_same(torch.load(file), expected)

    def test_distributed_checkpoint(self):
        path = self.directory / "new" / "checkpoint"
        for fill in (1.0, 2.0):  # the second replaces the first
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dcp.save({"w": torch.full((64, 64), fill), "n": {"step": 3}}, checkpoint_id=f"pawl://{path}")
            found = {"w": torch.zeros(64, 64), "n": {"step": 0}}
            dcp.load(found, checkpoint_id=f"pawl://{path}")
            self.assert_same(found, {"w": torch.full((64, 64), fill), "n": {"step": 3}})
        self.assertEqual(self.hidden(path), [])

    def test_distributed_checkpoint_syncs_files_alone(self):
        with mock.patch.object(os, "sync", side_effect=AssertionError("the whole machine is synced")):
            dcp.save({"w": torch.ones(4)}, checkpoint_id=f"pawl://{self.directory}/checkpoint")


class Model(lightning.pytorch.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch, _index):
        loss = (self.layers(batch[0]) - batch[0].sum(1, keepdim=True)).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Lightning(Files):
    def fitted(self, epochs, ckpt_path=None, callbacks=(), **options):
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "log_every_n_steps": 1}
        trainer = lightning.pytorch.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=epochs,
            callbacks=list(callbacks),
            default_root_dir=f"pawl://{self.directory}/root",
            **{**quiet, **options},
        )
        model = Model()
        data = torch.utils.data.TensorDataset(torch.randn(32, 4, generator=torch.Generator().manual_seed(3)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8), ckpt_path=ckpt_path)
        return trainer, model

    def test_default_root_dir(self):
        """Saved by the default ModelCheckpoint and CSVLogger, and resumed: equal to training without a stop."""
        published = []
        real = _whole.File._publish
        with mock.patch.object(_whole.File, "_publish", lambda file: (published.append(file.path), real(file))[1]):
            trainer, _ = self.fitted(2)
        path = trainer.checkpoint_callback.best_model_path
        self.assertTrue(path.startswith("pawl://"), path)
        self.assertIn(path.removeprefix("pawl://"), published)
        again, model = self.fitted(4, ckpt_path=path)
        self.assertEqual((trainer.global_step, again.global_step), (8, 16))
        _, whole = self.fitted(4, enable_checkpointing=False, logger=False)
        self.assert_same(model.state_dict(), whole.state_dict())
        self.assertEqual(
            [name for _, _, names in os.walk(self.directory) for name in names if "pawl-write" in name], []
        )

    def test_model_checkpoint_rotates(self):
        def keeps():
            where = f"pawl://{self.directory}/kept"
            return lightning.pytorch.callbacks.ModelCheckpoint(
                where, save_top_k=2, save_last=True, monitor="loss", every_n_epochs=1
            )

        self.fitted(3, callbacks=[keeps()])
        names = sorted(os.listdir(self.directory / "kept"))
        self.assertEqual((len(names), "last.ckpt" in names), (3, True), names)
        again, model = self.fitted(4, ckpt_path="last", callbacks=[keeps()])
        self.assertEqual(again.global_step, 16)
        _, whole = self.fitted(4, enable_checkpointing=False, logger=False)
        self.assert_same(model.state_dict(), whole.state_dict())

    def test_a_save_that_fails_keeps_the_one_before(self):
        trainer, _ = self.fitted(1)
        path = self.directory / "kept.ckpt"
        trainer.save_checkpoint(f"pawl://{path}")
        before = path.read_bytes()
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            with self.assertRaises(pawl.NoSpace):
                trainer.save_checkpoint(f"pawl://{path}")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assertEqual((path.read_bytes(), self.hidden()), (before, []))
        trainer.save_checkpoint(f"pawl://{path}")
        with io.BytesIO(path.read_bytes()) as file:
            self.assertEqual(torch.load(file, weights_only=False)["global_step"], 4)


if __name__ == "__main__":
    support.main()
