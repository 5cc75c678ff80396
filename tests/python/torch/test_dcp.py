# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: what it does by itself, silently where it fails, and what it does through pawl."""

import io
import logging
import os
import pathlib
import pickle
import shutil
import warnings

import support  # first: it finds the package
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

import pawl
from pawl.torch import Reader, Writer

warnings.filterwarnings("ignore", category=UserWarning)
logging.getLogger("torch.distributed.checkpoint").setLevel(logging.CRITICAL)


def save(state, writer):
    dcp.save(state, storage_writer=writer, no_dist=True)


def load(state, reader):
    """The state after loading; what a reader raised is raised itself, out of torch's exception."""
    try:
        dcp.load(state, storage_reader=reader, no_dist=True)
    except CheckpointException as why:
        raise why.failures[0][0] from why
    return state


FAILS = """
import sys, time
import support, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from pawl.torch import Writer

dist.init_process_group("gloo")
state = {"w": torch.ones(2)}
if dist.get_rank() == 1:
    state["extra"] = {"net": torch.nn.Linear(1, 1)}
begin = time.monotonic()
try:
    dcp.save(state, storage_writer=Writer(sys.argv[1]))
except dcp.api.CheckpointException as why:
    if dist.get_rank() == 0:
        for rank, (failure, _) in why.failures.items():
            print(f"rank {rank}: {type(failure).__name__}: {failure}")
assert time.monotonic() - begin < 60
support.end_rank()
"""


DIFFERS = """
import sys
import support, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from pawl.torch import Reader, Writer

dist.init_process_group("gloo")
dcp.save({"w": torch.ones(2)}, storage_writer=Writer(sys.argv[1]))
state = {"w": torch.zeros(2 + dist.get_rank()), "v": torch.zeros(1)} if dist.get_rank() else {"w": torch.zeros(2)}
try:
    dcp.load(state, storage_reader=Reader(sys.argv[1]))
except dcp.api.CheckpointException as why:
    failures = {rank: sorted(item.name for item in failure.report.items) for rank, (failure, _) in why.failures.items()}
    assert failures == {1: ["v", "w"]}, failures
else:
    raise AssertionError("it was loaded")
dcp.load({"w": torch.zeros(2)}, storage_reader=Reader(sys.argv[1]))
support.end_rank()
"""


class Ranks(support.InDirectory):
    def test_saved_on_four_ranks_in_every_way_loaded_on_one_two_and_three(self):
        program = (pathlib.Path(__file__).parent / "dcp_ranks.py").read_text(encoding="utf-8")
        self.program(program, "save", self.directory, ranks=4)
        for mark in self.directory.glob("*/*.metadata"):
            self.assertEqual(mark.read_bytes()[:15], b"# Saved by pawl")
        self.assertEqual(len(list(self.directory.glob("*/*.metadata"))), 7)
        with pawl.open(self.directory / "plain") as checkpoint:
            self.assertEqual(checkpoint.world_size, 4)
            self.assertIn("model/0/weight", checkpoint)
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                done = self.program(program, "load", self.directory, ranks=ranks)
                self.assertEqual(done.stdout.count("equal "), 7, done.stdout + done.stderr)

    def test_what_differs_on_one_rank_alone_is_told_to_all(self):
        self.program(DIFFERS, self.run_path, ranks=2)

    def test_a_rank_that_cannot_save_is_named_at_once(self):
        done = self.program(FAILS, self.run_path, ranks=2)
        self.assertIn("rank 0: PeerFailed", done.stdout)
        self.assertIn("rank 1 failed: extra.net is a torch.nn", done.stderr)
        self.assertIn("rank 1: UsageError", done.stdout)


class Alone(support.InDirectory):
    def test_dtypes_shapes_and_names(self):
        dtypes = [torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float16, torch.float64, torch.complex64]
        dtypes += [torch.complex32, torch.complex128, torch.float8_e4m3fn, torch.uint64]
        state = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in dtypes}
        state |= {"a/b": torch.ones(2), "a..b": torch.zeros(1), "50%": torch.ones(()), "empty": torch.zeros(0, 3)}
        state |= {"turned": torch.arange(6.0).reshape(2, 3).t(), "spread": torch.ones(1).expand(4)}
        state |= {"nested": {"list": [torch.ones(1), {"x": torch.ones(2)}], "a.b": 3, "text": "x", "t": (1, (2, None))}}
        save(state, Writer(self.run_path))
        empty = {k: torch.zeros_like(v).contiguous() for k, v in state.items() if isinstance(v, torch.Tensor)}
        empty["nested"] = {"list": [torch.zeros(1), {"x": torch.zeros(2)}], "a.b": 0, "text": "", "t": ()}
        found = load(empty, Reader(self.run_path))
        for name, expected in state.items():
            with self.subTest(name=name):
                if name != "nested":
                    self.assertEqual(found[name].tolist(), expected.tolist())
                else:
                    self.assertEqual(str(found[name]), str(expected))

    def test_overwriting_is_atomic_and_may_be_refused(self):
        for value in (1.0, 2.0):
            save({"w": torch.full((3,), value)}, Writer(self.run_path))
        self.assertEqual(load({"w": torch.zeros(3)}, Reader(self.run_path))["w"].tolist(), [2.0] * 3)
        with self.assertRaisesRegex(CheckpointException, "overwrite=False"):
            save({"w": torch.zeros(3)}, Writer(self.run_path, overwrite=False))

    def test_what_needs_pickle_is_named(self):
        with self.assertRaisesRegex(CheckpointException, r"extra\.net"):
            save({"extra": {"net": torch.nn.Linear(1, 1)}}, Writer(self.run_path))

    def test_float4_is_refused_by_name(self):
        packed = torch.zeros(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        with self.assertRaisesRegex(CheckpointException, r"w: parts of tensors of torch.float4_e2m1fn_x2 cannot be"):
            save({"w": packed}, Writer(self.run_path))

    def test_the_mark_that_programs_look_for_is_no_pickle(self):
        save({"w": torch.ones(3)}, FileSystemWriter(self.run_path))
        save({"w": torch.zeros(3)}, Writer(self.run_path))
        self.assertIn(b"pawl.torch.Reader", (self.run_path / ".metadata").read_bytes())
        self.assertFalse((self.run_path / ".metadata.tmp").exists())
        with self.assertRaisesRegex(AssertionError, "invalid load key, '#'"):
            load({"w": torch.ones(3)}, FileSystemReader(self.run_path))
        shutil.rmtree(self.run_path / "step-00000000")
        with self.assertRaisesRegex(AssertionError, "(?s)there is no checkpoint here, but the mark.*copy the whole"):
            load({"w": torch.ones(3)}, Reader(self.run_path))

    def test_a_mark_that_cannot_be_left_is_said(self):
        self.run_path.mkdir()
        (self.run_path / ".metadata.tmp").mkdir()
        with self.assertLogs("pawl", "WARNING") as logged:
            save({"w": torch.ones(3)}, Writer(self.run_path))
        self.assertIn("the checkpoint is committed, but", logged.output[0])
        self.assertEqual(load({"w": torch.zeros(3)}, Reader(self.run_path))["w"].tolist(), [1.0] * 3)

    def test_what_fails_leaves_no_mark(self):
        with self.assertRaises(CheckpointException):
            save({"extra": {"net": torch.nn.Linear(1, 1)}}, Writer(self.run_path))
        self.assertFalse((self.run_path / ".metadata").exists())

    def test_a_directory_of_torch_is_read_as_torch_does(self):
        save({"w": torch.ones(3), "n": 4}, FileSystemWriter(self.run_path))
        self.assertEqual(load({"w": torch.zeros(3), "n": 0}, Reader(self.run_path))["n"], 4)

    def test_what_torch_saved_later_in_the_same_directory(self):
        save({"w": torch.ones(3)}, Writer(self.run_path))
        save({"w": torch.full((3,), 2.0)}, FileSystemWriter(self.run_path))
        later = (self.run_path / ".metadata").stat().st_mtime + 10
        os.utime(self.run_path / ".metadata", (later, later))
        with self.assertLogs("pawl", "WARNING"):
            self.assertEqual(load({"w": torch.zeros(3)}, Reader(self.run_path))["w"].tolist(), [2.0] * 3)

    def test_files_of_others_are_no_checkpoint_of_torch(self):
        save({"w": torch.ones(3)}, Writer(self.run_path))
        (self.run_path / "notes.metadata").write_text("mine", encoding="utf-8")
        (self.run_path / "__0.metadata").mkdir()
        self.assertEqual(load({"w": torch.zeros(3)}, Reader(self.run_path))["w"].tolist(), [1.0] * 3)

    def test_zero_copy_waits_before_the_step(self):
        model = torch.nn.Linear(1024, 1024)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for i in range(3):
            before = {k: v.clone() for k, v in model.state_dict().items()}
            future = dcp.async_save(
                model.state_dict(), storage_writer=Writer(self.run_path, zero_copy=True), no_dist=True
            )
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()
            future.result()
            found = load({k: torch.zeros_like(v) for k, v in before.items()}, Reader(self.run_path))
            for name, tensor in before.items():
                self.assertTrue(torch.equal(found[name], tensor), (i, name))

    def test_a_process_cannot_save_by_reference(self):
        writer = Writer(self.run_path, zero_copy=True)
        writer.stage({"w": torch.ones(1)})
        with self.assertRaisesRegex(pawl.UsageError, "with threads"):
            pickle.dumps(writer)
        writer._release()


class Pairs(support.InDirectory):
    """What torch does, mostly nothing; then what pawl says."""

    def setUp(self):
        super().setUp()
        self.torchs, self.ours = self.directory / "torch", self.run_path

    def both(self, state):
        save(state, FileSystemWriter(self.torchs))
        save(state, Writer(self.ours))

    def test_r02_another_dtype(self):
        self.both({"w": torch.tensor([1.0, 1e30], dtype=torch.float64)})
        found = load({"w": torch.zeros(2, dtype=torch.float16)}, FileSystemReader(self.torchs))
        self.assertEqual(found["w"].tolist(), [1.0, float("inf")])  # silently
        target = torch.zeros(2, dtype=torch.float16)
        with self.assertRaises(pawl.Mismatch) as caught:
            load({"w": target}, Reader(self.ours))
        self.assertRegex(str(caught.exception), "F64")
        self.assertEqual(caught.exception.report.items[0].name, "w")
        self.assertEqual(target.tolist(), [0, 0])
        load({"w": target}, Reader(self.ours, cast="allow"))
        self.assertEqual(target.tolist(), [1.0, float("inf")])

    def test_notes_that_are_not_what_a_writer_notes(self):
        wrong = ("[]", "1", '{"w": 1}', '{"w": {"path": [[]]}}', '{"w": {"object": [1]}}', "[" * 100_000)
        for text in (*(b'{"entries": ' + one.encode() + b"}" for one in wrong), b"", b"[]"):
            with self.subTest(text=text[:60]):
                with pawl.Run(self.ours) as run:
                    run.save(pawl.State({"w": bytearray(b"1234"), "%dcp/plan/0": bytearray(text)}), 0)
                    run.wait()
                with self.assertRaises(Exception) as caught:
                    load({"w": torch.zeros(4, dtype=torch.uint8)}, Reader(self.ours))
                self.assertIn("does not say what Writer notes there", str(caught.exception))

    def test_r04_an_entry_that_nobody_asks_for(self):
        self.both({"w": torch.ones(2), "v": torch.ones(2)})
        load({"w": torch.zeros(2)}, FileSystemReader(self.torchs))  # silently
        target = torch.zeros(2)
        with self.assertRaises(pawl.Mismatch) as caught:
            load({"w": target}, Reader(self.ours))
        self.assertEqual([item.name for item in caught.exception.report.items], ["v"])
        self.assertEqual(target.tolist(), [0, 0])
        load({"w": target}, Reader(self.ours, unexpected="allow"))
        self.assertEqual(target.tolist(), [1, 1])

    def test_r04_parts_of_which_nothing_is_asked_for_are_left_out(self):
        save({"model": {"w": torch.ones(2), "v": torch.ones(2)}, "optimizer": {"lr": 0.1}}, Writer(self.ours))
        found = load({"model": {"w": torch.zeros(2), "v": torch.zeros(2)}}, Reader(self.ours))
        self.assertEqual(found["model"]["w"].tolist(), [1, 1])
        self.assertEqual(load({"optimizer": {"lr": 0}}, Reader(self.ours)), {"optimizer": {"lr": 0.1}})
        with self.assertRaises(pawl.Mismatch) as caught:
            load({"model": {"w": torch.zeros(2)}}, Reader(self.ours))
        self.assertIn("model/v", [item.name for item in caught.exception.report.items])

    def test_r01_r03_shape_and_missing_key(self):
        self.both({"w": torch.ones(2, 3), "v": torch.ones(2), "n": 1, "c": torch.ones(2, dtype=torch.complex128)})
        state = {"w": torch.zeros(2, 4), "v": torch.zeros(2, dtype=torch.float64), "x": torch.zeros(5), "y": 1, "n": 2}
        state |= {"c": torch.zeros(0, dtype=torch.complex128)}
        with self.assertRaisesRegex(ValueError, r"Size mismatch between saved torch.Size\(\[2\]\)"):
            load(dict(state), FileSystemReader(self.torchs))  # one at a time, and nothing of the type
        with self.assertRaises(pawl.Mismatch) as caught:
            load(dict(state), Reader(self.ours))
        self.assertEqual({item.name for item in caught.exception.report.items}, {"w", "v", "x", "y", "c"})
        self.assertIn("Size mismatch between saved", caught.exception.system)
        self.assertIn("planner=DefaultLoadPlanner(allow_partial_load=True)", caught.exception.next)
        self.assertEqual([state["w"].sum(), state["n"]], [0, 2])
        right = {"w": torch.zeros(2, 3), "x": torch.zeros(5), "n": 2}
        with self.assertRaisesRegex(RuntimeError, r"Missing key in checkpoint state_dict: x\."):
            load(dict(right), FileSystemReader(self.torchs))
        with self.assertRaisesRegex(pawl.Mismatch, '(?s)"x", .5. F32 in the state, is not.*Missing key in checkpoint'):
            load(dict(right), Reader(self.ours))
        reader, planner = Reader(self.ours, unexpected="allow"), DefaultLoadPlanner(allow_partial_load=True)
        dcp.load(right, storage_reader=reader, planner=planner, no_dist=True)
        self.assertEqual((right["w"].sum(), right["x"].sum(), right["n"]), (6, 0, 1))
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({"w": torch.zeros(3), "x": torch.zeros(1)}, storage_reader=reader, planner=planner, no_dist=True)
        self.assertEqual(
            [item.name for item in caught.exception.failures[0][0].report.items if item.severity.name == "ERROR"], ["w"]
        )

    def test_planners_that_refuse_in_their_own_words(self):
        class Own(DefaultLoadPlanner):
            def create_local_plan(self):
                raise ValueError("not this one")

        self.both({"w": torch.ones(2)})
        for reader in (FileSystemReader(self.torchs), Reader(self.ours)):
            with self.assertRaisesRegex(CheckpointException, "not this one"):
                dcp.load({"w": torch.zeros(3)}, storage_reader=reader, planner=Own(), no_dist=True)
            dcp.load({"w": torch.zeros(2)}, storage_reader=reader, no_dist=True)

    def test_a_flipped_bit(self):
        self.both({"w": torch.ones(4096)})
        data = next(self.torchs.glob("*.distcp"))
        raw = bytearray(data.read_bytes())
        raw[raw.index(torch.ones(64).numpy().tobytes()) + 2] ^= 1
        data.write_bytes(raw)
        found = load({"w": torch.zeros(4096)}, FileSystemReader(self.torchs))
        self.assertFalse(torch.equal(found["w"], torch.ones(4096)))  # silently
        data = next(self.ours.rglob("*.safetensors"))
        raw = bytearray(data.read_bytes())
        raw[raw.index(torch.ones(64).numpy().tobytes()) + 2] ^= 1
        data.write_bytes(raw)
        with self.assertRaises(pawl.Damaged) as caught:
            load({"w": torch.zeros(4096)}, Reader(self.ours))
        self.assertIn("w", str(caught.exception))

    def test_a_pickle_in_a_checkpoint(self):
        """Torch executes it; pawl reads JSON where an object is."""
        made = self.directory / "made"

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(made),)

        save({"o": Evil()}, FileSystemWriter(self.torchs))
        self.assertFalse(made.exists())
        load({"o": 0}, FileSystemReader(self.torchs))
        self.assertTrue(made.exists())  # it was executed
        made.rmdir()
        buffer = io.BytesIO()
        torch.save(Evil(), buffer)
        for text in (buffer.getvalue(), pickle.dumps(Evil())):
            with pawl.Run(self.ours) as run:
                notes = bytearray(b'{"entries": {"o": {"object": []}}}')
                run.save(pawl.State({"o": bytearray(text), "%dcp/plan/0": notes}), 0)
                run.wait()
            with self.assertRaisesRegex(pawl.Damaged, "o: is no object that pawl has written"):
                load({"o": 0}, Reader(self.ours))
            self.assertFalse(made.exists())
            shutil.rmtree(self.ours)

    def test_a_file_of_another_beside_a_checkpoint_is_left_alone(self):
        self.ours.mkdir()
        torch.save({"epoch": 3}, self.ours / "meta.pt")
        before = (self.ours / "meta.pt").read_bytes()
        for value in (1.0, 2.0):
            save({"w": torch.full((2,), value)}, Writer(self.ours))
            self.assertEqual(load({"w": torch.zeros(2)}, Reader(self.ours))["w"].tolist(), [value] * 2)
        self.assertEqual((self.ours / "meta.pt").read_bytes(), before)

    def test_no_metadata(self):
        self.both({"w": torch.ones(2)})
        (self.torchs / ".metadata").unlink()
        with self.assertRaisesRegex(AssertionError, "metadata is None; global metadata read failed: .*No such file"):
            load({"w": torch.zeros(2)}, FileSystemReader(self.torchs))
        (self.ours / ".metadata").unlink()
        self.assertEqual(load({"w": torch.zeros(2)}, Reader(self.ours))["w"].tolist(), [1, 1])  # nobody needs it
        next(self.ours.rglob("manifest.json")).unlink()
        with self.assertRaisesRegex(AssertionError, "(?s)global metadata read failed: .*pawl"):
            load({"w": torch.zeros(2)}, Reader(self.ours))


FULL = """
import contextlib, resource, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed.checkpoint as dcp
from pawl.torch import Writer

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
threading.excepthook = lambda found: print("thread:", found.exc_value, flush=True)
if sys.argv[2] == "pawl":
    writer = Writer(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
else:
    writer = dcp.FileSystemWriter(sys.argv[1], thread_count=2)
    before = writer.fs.create_stream

    @contextlib.contextmanager
    def create_stream(path, mode):
        if threading.current_thread() is not threading.main_thread():
            raise OSError(28, "No space left on device")
        time.sleep(0.5)
        with before(path, mode) as stream:
            yield stream

    writer.fs.create_stream = create_stream
try:
    dcp.save({"w": torch.ones(1 << 20), "v": torch.ones(1 << 20)}, storage_writer=writer, no_dist=True)
    print("saved")
except dcp.api.CheckpointException as why:
    print("raised", type(why.failures[0][0]).__name__, why.failures[0][0])
"""


class Writing(support.InDirectory):
    def test_no_space_in_a_writer_thread(self):
        done = self.program(FULL, self.directory / "torch", "torch")
        self.assertIn("thread: [Errno 28] No space left on device", done.stdout)
        self.assertIn("saved", done.stdout)  # although a tensor is lost
        with self.assertRaises(CheckpointException):
            dcp.load(
                {"w": torch.zeros(1 << 20), "v": torch.zeros(1 << 20)},
                storage_reader=FileSystemReader(self.directory / "torch"),
                no_dist=True,
            )
        done = self.program(FULL, self.run_path, "pawl")
        self.assertIn("raised NoSpace", done.stdout)
        self.assertIn("next:", done.stdout)

    def test_an_asynchronous_save_into_a_place_that_cannot_be_written(self):
        blocked = self.directory / "file"
        blocked.write_text("not a directory")
        with self.assertNoLogs("pawl"):
            future = dcp.async_save(
                {"w": torch.ones(2)}, storage_writer=FileSystemWriter(blocked / "torch"), no_dist=True
            )
            while not future.done():
                pass  # and nobody asks for the result
        with self.assertLogs("pawl", "ERROR") as logged:
            future = dcp.async_save({"w": torch.ones(2)}, storage_writer=Writer(blocked / "ours"), no_dist=True)
            self.assertIsInstance(future.exception(), CheckpointException)
        self.assertIn(f"saving to {blocked / 'ours'} failed", "".join(logged.output))


if __name__ == "__main__":
    support.main()
