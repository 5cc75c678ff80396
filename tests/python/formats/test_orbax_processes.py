# SPDX-License-Identifier: Apache-2.0
"""Orbax: what several processes saved together, each its part, whole and with parts missing.

The processes are real: JAX connects them, and each has some of the devices. Arrays that devices would share
unevenly are not among what they save: JAX has none.
"""

import itertools
import logging
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np
import orbax.checkpoint as ocp
import orbax_processes as job
import support
from safetensors import safe_open

import pawl

# What Orbax leaves behind where it fails, as it should.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
PROGRAM = pathlib.Path(job.__file__)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run_processes(count, directory, *arguments):
    """Until the first one kills itself, and then the others, which wait for it."""
    address = f"127.0.0.1:{free_port()}"
    logs = [directory / f"log-{rank}" for rank in range(count)]
    processes = []
    for rank, log in enumerate(logs):
        command = [sys.executable, PROGRAM, str(rank), str(count), address, directory, *arguments]
        with log.open("wb") as out:
            processes.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
    deadline = time.monotonic() + 250
    while processes[0].poll() is None and time.monotonic() < deadline:
        if any(process.poll() for process in processes[1:]):
            break  # one has failed, which its log tells
        time.sleep(0.05)
    for process in processes:
        process.kill()
        process.wait()
    if not (directory / "stopped.orbax-checkpoint-tmp/ocdbt.process_0/manifest.ocdbt").exists():
        raise AssertionError("\n".join(log.read_text(errors="replace")[-4000:] for log in logs))


class Saved(support.InDirectory):
    """Checkpoints that `count` processes saved, once for all tests."""

    count = 0
    arguments: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls):
        cls.saved = pathlib.Path(tempfile.mkdtemp(prefix="pawl-formats-"))
        cls.addClassCleanup(shutil.rmtree, cls.saved, ignore_errors=True)
        run_processes(cls.count, cls.saved, *cls.arguments)

    def copy(self, name, to="copy"):
        """Of a checkpoint, to be changed."""
        path = self.directory / to
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.saved / name, path)
        return path

    def unmerged(self, name):
        """The checkpoint before what its processes saved was put together."""
        path = self.copy(name)
        (path / "manifest.ocdbt").unlink()
        shutil.rmtree(path / "d")
        return path

    def restored(self, path):
        """What Orbax itself restores, by pawl's names."""
        handler = ocp.PyTreeCheckpointHandler()
        options = {
            "places": dict.fromkeys(job.PLACES, ocp.RestoreArgs(restore_type=np.ndarray)),
            "types": dict.fromkeys(job.TYPES, ocp.RestoreArgs(restore_type=np.ndarray)),
            **dict.fromkeys(job.PLAIN, ocp.RestoreArgs(restore_type=np.ndarray)),
        }
        with ocp.Checkpointer(handler) as checkpointer:
            tree = checkpointer.restore(
                path, args=ocp.args.PyTreeRestore(item=options, restore_args=options, partial_restore=True)
            )
        names = {f"{group}/{name}": array for group in ("places", "types") for name, array in tree[group].items()}
        return names | {name: tree[name] for name in job.PLAIN}

    def assert_whole(self, path, prefix="", restored=None):
        """Each array is as it was made, and as Orbax restores it; nothing else is there; all can be verified."""
        made = job.expected() | {name: np.asarray(value) for name, value in job.PLAIN.items()}
        restored = self.restored(path) if restored is None else restored
        self.assertEqual(sorted(restored), sorted(made))
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, "Orbax")
            for name, array in made.items():
                self.assertEqual(support.bits(restored[name]), support.bits(array), name)
                self.assert_tensor(checkpoint, prefix + name, array)
            found = [each.name for each in checkpoint.entries() if each.kind == "tensor"]
            self.assertEqual(sorted(found), sorted(prefix + name for name in made))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1

    def assert_refused(self, path, says, error=pawl.Damaged):
        """It is not opened, and the words say why."""
        with self.assertRaisesRegex(error, says):
            pawl.open(path).close()
        self.files += 1

    def assert_never_wrong(self, path):
        """It is refused, or verify finds what is damaged, or each array is as it was made."""
        made = job.expected()
        try:
            with pawl.open(path) as checkpoint:
                if checkpoint.verify().ok:
                    for name, array in made.items():
                        self.assert_tensor(checkpoint, name, array)
                    return "whole"
        except pawl.Damaged:
            return "refused"
        return "found"


class Two(Saved):
    count = 2

    def test_every_way_to_store(self):
        for way in [*itertools.starmap(job.way_name, job.WAYS), "plain", "standard", "replicas"]:
            with self.subTest(way=way):
                self.assert_whole(self.saved / way)
        self.assertEqual(len(list((self.saved / "replicas").glob("ocdbt.process_replica_*"))), 2)
        self.enough(11)

    def test_a_step_of_a_manager(self):
        restored = self.restored(self.saved / "run/3/state")
        self.assert_whole(self.saved / "run/3", "state/", restored)
        with pawl.open(self.saved / "run/3") as checkpoint:
            self.assertEqual(checkpoint["extra"], {"lr": 0.5})

    def test_leaves_that_are_no_arrays(self):
        with pawl.open(self.saved / "ocdbt-2-whole") as checkpoint:
            self.assertEqual({name: checkpoint[name] for name in job.OTHERS}, job.OTHERS)

    def test_the_command(self):
        """All of them are listed, verified and converted."""
        command = os.environ["PAWL_COMMAND"]
        listed = subprocess.run([command, "ls", self.saved], capture_output=True, text=True, check=True).stdout
        for name in ("ocdbt-3-40", "files-2-whole", "replicas"):
            self.assertRegex(listed, rf"(?m)^{name} +Orbax")
        unmerged = self.unmerged("ocdbt-3-40")
        listed_unmerged = subprocess.run([command, "ls", unmerged.parent], capture_output=True, text=True, check=True)
        self.assertRegex(listed_unmerged.stdout, r"(?s)Orbax +unfinished.*was not put together")
        self.assertRegex(listed, r"(?m)^stopped.orbax-checkpoint-tmp +Orbax +unfinished")
        for name in ("ocdbt-3-40", "ocdbt-2-whole", "files-3-whole", "replicas"):
            subprocess.run([command, "verify", self.saved / name], capture_output=True, check=True)
            out = self.directory / f"{name}.safetensors"
            subprocess.run([command, "convert", self.saved / name, out], capture_output=True, check=True)
            with safe_open(out, "np") as converted:
                for array_name, array in job.expected().items():
                    if array_name.startswith("places/"):  # NumPy has not all of the types
                        self.assertEqual(support.bits(converted.get_tensor(array_name)), support.bits(array))

    # ---- not put together ----

    def test_a_save_that_was_stopped_before_it_was_put_together(self):
        """As it is, it is refused; with its name it is read, and equal to what Orbax puts together."""
        stopped = "stopped.orbax-checkpoint-tmp"
        self.assertFalse((self.saved / stopped / "manifest.ocdbt").exists())
        self.assert_refused(self.saved / stopped, "never finished(?s:.*)if all of it is there, give the directory its")
        path = self.copy(stopped)
        with self.assertRaisesRegex(Exception, "(?i)manifest|not found|ocdbt"):
            self.restored(path)
        merged = self.copy(stopped, "merged")
        handler = ocp.PyTreeCheckpointHandler()
        handler.finalize(merged)
        self.assert_whole(merged)
        self.assert_whole(path, restored=self.restored(merged))
        with pawl.open(path) as checkpoint:
            self.assertRegex(checkpoint["files that are not read"]["manifest.ocdbt"], "never written: ")

    def test_every_way_before_it_is_put_together(self):
        for way in [job.way_name(*way) for way in job.WAYS if way[0]] + ["plain", "replicas"]:
            with self.subTest(way=way):
                restored = self.restored(self.saved / way)
                self.assert_whole(self.unmerged(way), restored=restored)

    def test_a_process_that_saved_nothing(self):
        path = self.unmerged("ocdbt-2-whole")
        (path / "ocdbt.process_1/manifest.ocdbt").unlink()
        self.assert_refused(path, "never finished: a process did not save its part(?s:.*)ocdbt.process_1")
        shutil.rmtree(path / "ocdbt.process_1")
        self.assert_refused(path, r"never finished: a part of an array is missing(?s:.*)the first that is missing is ")
        path = self.unmerged("ocdbt-3-whole")
        shutil.rmtree(path / "ocdbt.process_0")
        self.assert_refused(path, "lacks an array that its _METADATA names")

    def test_without_a_tree_the_processes_are_opened_alone(self):
        path = self.unmerged("ocdbt-2-whole")
        (path / "_METADATA").unlink()
        self.assert_refused(path, "what its processes saved was not put together(?s:.*)open ocdbt.process_0")
        with pawl.open(path / "ocdbt.process_0") as checkpoint:
            self.assert_tensor(checkpoint, "numpy", job.PLAIN["numpy"])
            self.assert_unread(checkpoint, "places.both", "F32, in part", (12, 6))
        says = "not described by itself(?s:.*)open the directory above"
        self.assert_refused(path / "ocdbt.process_1", says, pawl.Unsupported)

    # ---- damage ----

    def test_a_process_whose_folder_is_missing(self):
        for way in ("ocdbt-2-whole", "ocdbt-3-whole", "replicas"):
            for process in ("ocdbt.process_0", "ocdbt.process_1"):
                path = self.copy(way)
                shutil.rmtree(path / process)
                with self.subTest(way=way, process=process):
                    self.assert_refused(path, f"a data file of the database is missing(?s:.*)/{process}/d/")

    def test_chunks_that_are_missing(self):
        """Orbax says that all are stored, so none of them is the fill value."""
        for way, chunks in (("files-2-whole", "{}/0.0 {}/3.1"), ("files-3-whole", "{}/c/0/0 {}/c/3/1")):
            for chunk in chunks.format("places.large", "places.both").split():
                path = self.copy(way)
                (path / chunk).unlink()
                name = chunk.split("/")[0].replace(".", "/")
                with self.subTest(chunk=chunk):
                    self.assert_refused(path, f"lacks a part of an array(?s:.*){name}(?s:.*)missing is {chunk}")
                    with self.assertRaisesRegex(Exception, "(?i)missing"):
                        self.restored(path)

    def test_files_of_a_process_that_are_cut(self):
        for way in ("ocdbt-2-40", "ocdbt-3-whole"):
            for file in sorted((self.saved / way).glob("ocdbt.process_*/d/*")):
                for part in (0.0, 0.5, 0.99):
                    path = self.copy(way)
                    cut = path / file.relative_to(self.saved / way)
                    os.truncate(cut, int(cut.stat().st_size * part))
                    with self.subTest(file=cut, part=part):
                        self.assertIn(self.assert_never_wrong(path), ("refused", "whole"))
                self.files += 1

    def test_databases_with_flipped_bits(self):
        """Manifests and nodes have checksums; of processes they count before they are put together."""
        path = self.unmerged("ocdbt-2-whole")
        for manifest in sorted(path.glob("ocdbt.process_*/manifest.ocdbt")):
            bytes_of = manifest.read_bytes()
            for at in range(0, len(bytes_of), 7):
                manifest.write_bytes(bytes_of[:at] + bytes([bytes_of[at] ^ 0x10]) + bytes_of[at + 1 :])
                with self.subTest(manifest=manifest, at=at):
                    self.assertEqual(self.assert_never_wrong(path), "refused")
            manifest.write_bytes(bytes_of)
        self.assertEqual(self.assert_never_wrong(path), "whole")

    def test_two_processes_that_saved_the_same(self):
        path = self.unmerged("ocdbt-2-whole")
        shutil.copytree(path / "ocdbt.process_1", path / "ocdbt.process_2")
        self.assert_refused(path, "two processes saved the same part of an array")


class Four(Saved):
    count = 4
    arguments = ("few",)

    def test_every_way_to_store(self):
        for way in [*itertools.starmap(job.way_name, job.WAYS[::2]), "replicas"]:
            with self.subTest(way=way):
                self.assert_whole(self.saved / way)
        self.enough(5)

    def test_before_it_is_put_together(self):
        path = self.copy("stopped.orbax-checkpoint-tmp")
        self.assertEqual(len(list(path.glob("ocdbt.process_?"))), 4)
        self.assert_whole(path, restored=self.restored(self.saved / "ocdbt-2-whole"))
        shutil.rmtree(path / "ocdbt.process_2")
        self.assert_refused(path, "never finished: a part of an array is missing")


if __name__ == "__main__":
    support.main()
