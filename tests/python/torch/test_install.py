# SPDX-License-Identifier: Apache-2.0
"""pawl.torch.install(): tools and programs that know nothing of pawl but one line."""

import copy
import logging
import pathlib
import pickle
import re
import warnings

import support  # first: it finds the package
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter, format_utils
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner

import pawl
import pawl.torch

warnings.filterwarnings("ignore", category=UserWarning)
warnings.filterwarnings("ignore", category=FutureWarning)
logging.getLogger("torch.distributed.checkpoint").setLevel(logging.CRITICAL)


ACCELERATE = """
import pathlib, sys, types
import support, torch, torch.distributed as dist
from torch.distributed.fsdp import StateDictType, fully_shard
import pawl.torch

pawl.torch.install()
dist.init_process_group("gloo")
from accelerate import PartialState
PartialState(cpu=True)
from accelerate.utils import fsdp_utils

directory = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
fully_shard(model[0])
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
# Accelerate itself does not do FSDP on processors.
options = {"state_dict_config": None, "optim_state_dict_config": None}
plugin = types.SimpleNamespace(fsdp_version=2, state_dict_type=StateDictType.SHARDED_STATE_DICT, **options)
ranks = {"process_index": dist.get_rank(), "num_processes": 2, "is_main_process": dist.get_rank() == 0}
accelerator = types.SimpleNamespace(**ranks, is_fsdp2=True, wait_for_everyone=dist.barrier, fsdp_plugin=plugin)
tensors = [*model.parameters(), *(slots["exp_avg"] for slots in optimizer.state.values())]
before = [tensor.detach().full_tensor().clone() for tensor in tensors]
fsdp_utils.save_fsdp_model(plugin, accelerator, model, directory)
fsdp_utils.save_fsdp_optimizer(plugin, accelerator, optimizer, model, directory)
with torch.no_grad():
    for tensor in tensors:
        tensor.zero_()
fsdp_utils.load_fsdp_model(plugin, accelerator, model, directory)
fsdp_utils.load_fsdp_optimizer(plugin, accelerator, optimizer, model, directory)
tensors = [*model.parameters(), *(slots["exp_avg"] for slots in optimizer.state.values())]
assert all(torch.equal(now.detach().full_tensor(), then) for now, then in zip(tensors, before, strict=True))
support.end_rank()
"""

LIGHTNING = """
import pathlib, sys, warnings
warnings.simplefilter("ignore")
import lightning, torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
import pawl.torch

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def configure_model(self):
        fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, _):
        return self.layer(batch).square().sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)

def fit(epochs, where, resume=None):
    torch.manual_seed(0)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    checkpoints = ModelCheckpoint(dirpath=where, save_last=True, save_top_k=0)
    where = {"accelerator": "cpu", "devices": 1, "strategy": ModelParallelStrategy(), "default_root_dir": where}
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[checkpoints], **where, **quiet)
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(torch.ones(4, 4)), ckpt_path=resume)
    return [parameter.full_tensor().detach().clone() for parameter in module.parameters()]

directory = pathlib.Path(sys.argv[1])
pawl.torch.install()
fit(1, directory / "resumed")
resumed = fit(2, directory / "resumed", directory / "resumed" / "last.ckpt")
assert all(map(torch.equal, resumed, fit(2, directory / "whole")))
"""

FABRIC = """
import pathlib, sys, warnings
warnings.simplefilter("ignore")
import support, torch
from lightning.fabric import Fabric
from lightning.fabric.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard
import pawl.torch

def parallelize(model, mesh):
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh["data_parallel"])
    return model

def job(seed):
    torch.manual_seed(seed)
    model = fabric.setup_module(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)))
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=0.1))
    return {"model": model, "optimizer": optimizer, "seen": seed}

def train(job, steps):
    for step in range(steps):
        torch.manual_seed(step)
        job["optimizer"].zero_grad()
        fabric.backward(job["model"](torch.randn(2, 4)).square().sum())
        job["optimizer"].step()

def parameters(job):
    return [parameter.full_tensor().detach().clone() for parameter in job["model"].parameters()]

directory = pathlib.Path(sys.argv[1])
pawl.torch.install()
fabric = Fabric(accelerator="cpu", devices=2, strategy=ModelParallelStrategy(parallelize, 2, 1))
fabric.launch()
whole = job(1)
for _ in range(2):  # the second replaces the first
    train(whole, 2)
    fabric.save(directory / "saved", whole)
resumed = job(2)
assert not fabric.load(directory / "saved", resumed)
assert all(map(torch.equal, parameters(resumed), parameters(whole))) and resumed["seen"] == 1
for one in (resumed, whole):
    train(one, 2)
assert all(map(torch.equal, parameters(resumed), parameters(whole)))
fabric.barrier()
support.end_rank()
"""


class Installed(support.InDirectory):
    """Programs that know nothing of pawl but one line."""

    def test_accelerate(self):
        self.program(ACCELERATE, self.directory, ranks=2)
        self.assertEqual(pawl.ls(self.directory / "pytorch_model_fsdp_0")[0].world_size, 2)
        self.assertEqual(pawl.ls(self.directory / "optimizer_0")[0].world_size, 2)

    def test_lightning(self):
        self.program(LIGHTNING, self.directory)
        self.assertEqual(pawl.open(self.directory / "resumed" / "last.ckpt").format, "pawl")

    def test_fabric(self):
        self.program(FABRIC, self.directory, ranks=2)
        self.assertEqual(pawl.ls(self.directory / "saved")[0].world_size, 2)
        self.assertFalse(list((self.directory / "saved").glob("*.distcp")))

    def test_checkpoint_id_and_back(self):
        pawl.torch.install()
        pawl.torch.install(unexpected="allow")
        self.addCleanup(pawl.torch.uninstall)
        dcp.save({"w": torch.ones(2), "v": torch.ones(2)}, checkpoint_id=self.run_path, no_dist=True)
        found = {"w": torch.zeros(2)}
        dcp.load(found, checkpoint_id=self.run_path, no_dist=True)
        self.assertEqual(found["w"].tolist(), [1, 1])
        self.assertTrue((self.run_path / ".metadata").read_bytes().startswith(b"# Saved by pawl"))
        pawl.torch.uninstall()
        self.assertIs(type(dcp.FileSystemWriter("there")), dcp.FileSystemWriter)
        dcp.save({"w": torch.ones(2)}, checkpoint_id=self.directory / "torch", no_dist=True)
        self.assertTrue((self.directory / "torch" / ".metadata").read_bytes().startswith(b"\x80"))

    def test_tools_of_torch(self):
        pawl.torch.install()
        self.addCleanup(pawl.torch.uninstall)
        torch.save({"a": {"w": torch.arange(3.0)}, "n": 7}, self.directory / "from.pt")
        format_utils.torch_save_to_dcp(self.directory / "from.pt", self.run_path)
        self.assertEqual(pawl.open(self.run_path).format, "pawl")
        format_utils.dcp_to_torch_save(self.run_path, self.directory / "to.pt")
        found = torch.load(self.directory / "to.pt")
        self.assertEqual((found["a"]["w"].tolist(), found["n"]), ([0, 1, 2], 7))


class Stepped:
    """A program that looks into a folder for steps that are complete, by the file torch leaves last (TorchTitan)."""

    def __init__(self, folder):
        self.folder = folder
        self.step = 0
        self.weight = torch.zeros(3)

    def state_dict(self):
        return {"step": torch.tensor(self.step), "seen": [self.step]}

    def load_state_dict(self, state):
        self.step = int(state["step"])

    def states(self):
        """Weights beside the parts of the state: nothing holds them together."""
        return {"layer.weight": self.weight, "progress": self}

    def save(self):
        path = str(self.folder / f"step-{self.step}")
        dcp.async_save(self.states(), checkpoint_id=path, no_dist=True).result()

    def newest(self):
        found = [re.search(r"step-(\d+)", path.parent.name) for path in self.folder.glob("*/.metadata")]
        return max((int(one.group(1)) for one in found if one), default=-1)

    def load(self, states=None):
        """Whether there was a checkpoint."""
        step = self.newest()
        if step != -1:
            states = states or self.states()
            dcp.load(states, checkpoint_id=str(self.folder / f"step-{step}"), no_dist=True)
        return step != -1


class LooksFirst(FileSystemReader):
    """A reader that looks at every file before it reads, as Composer's does; made before install()."""

    def __init__(self, path):
        super().__init__(path)
        self.looked = []

    def read_metadata(self):
        self.looked.append((pathlib.Path(self.path) / ".metadata").is_file())
        return super().read_metadata()

    def read_data(self, plan, planner):
        for item in plan.items:
            found = self.storage_data[item.storage_index]
            size = (pathlib.Path(self.path) / found.relative_path).stat().st_size
            self.looked.append(found.offset + found.length <= size)
        return super().read_data(plan, planner)


class CallsByName(FileSystemReader):
    def __init__(self, path):
        FileSystemReader.__init__(self, path)


class OwnWriter(FileSystemWriter):
    """A program's own."""


class Programs(support.InDirectory):
    """Code of the shape that training programs have; their classes were imported, and made, before install()."""

    def setUp(self):
        super().setUp()
        pawl.torch.install()
        self.addCleanup(pawl.torch.uninstall)

    def test_a_program_that_looks_for_complete_steps_goes_on(self):
        program = Stepped(self.directory)
        self.assertFalse(program.load())
        for program.step in (2, 10):
            program.weight.fill_(program.step)
            program.save()
        (self.directory / "step-12").mkdir()  # begun, and never complete
        again = Stepped(self.directory)
        self.assertTrue(again.load())
        self.assertEqual((again.step, again.weight.tolist()), (10, [10.0] * 3))
        self.assertEqual(pawl.ls(self.directory / "step-10")[0].status, "committed")
        weights = Stepped(self.directory)
        weights.load({"layer.weight": weights.weight})  # and nothing else
        self.assertEqual(weights.weight.tolist(), [10.0] * 3)

    def test_a_save_that_fails_leaves_no_step_that_is_found(self):
        program = Stepped(self.directory)
        program.save()
        program.step, program.weight = 5, object()
        with self.assertLogs("pawl", "ERROR"), self.assertRaises(CheckpointException):
            program.save()
        self.assertEqual(program.newest(), 0)

    def test_readers_and_writers_by_names_imported_before(self):
        state = {"state": {"model": {"w": torch.arange(3.0)}, "epoch": 3}, "rng": [{"torch": torch.ones(4)}]}
        writer, planner = FileSystemWriter(str(self.run_path)), DefaultSavePlanner(dedup_save_to_lowest_rank=True)
        self.assertIsInstance(writer, pawl.torch.Writer)
        dcp.save(state_dict=state, storage_writer=writer, planner=planner, no_dist=True)
        self.assertEqual(pawl.open(self.run_path).format, "pawl")
        for reader in (FileSystemReader(str(self.run_path)), LooksFirst(str(self.run_path))):
            with self.subTest(reader=type(reader).__name__):
                paths = reader.read_metadata().planner_data.values()
                self.assertEqual({path[0] for path in paths}, {"state", "rng"})
                found = {"state": {"model": {"w": torch.zeros(3)}, "epoch": 0}, "rng": [{"torch": torch.zeros(4)}]}
                dcp.load(state_dict=found, storage_reader=reader, planner=DefaultLoadPlanner(), no_dist=True)
                self.assert_same(found, state)
        self.assertIsInstance(reader, LooksFirst)
        self.assertEqual(reader.looked, [True] * 5)

    def test_the_older_calls(self):
        dcp.save_state_dict({"w": torch.ones(2)}, FileSystemWriter(self.run_path), no_dist=True)
        found = {"w": torch.zeros(2)}
        dcp.load_state_dict(found, LooksFirst(self.run_path), no_dist=True)
        self.assertEqual(found["w"].tolist(), [1, 1])
        self.assertEqual(pawl.open(self.run_path).format, "pawl")

    def test_an_own_reader_reads_what_torch_saved_too(self):
        pawl.torch.uninstall()
        dcp.save({"w": torch.ones(2)}, checkpoint_id=self.run_path, no_dist=True)
        pawl.torch.install()
        found = {"w": torch.zeros(2)}
        dcp.load(found, storage_reader=LooksFirst(self.run_path), no_dist=True)
        self.assertEqual(found["w"].tolist(), [1, 1])

    def test_an_own_reader_has_the_options(self):
        dcp.save({"w": torch.ones(2), "v": torch.ones(2)}, checkpoint_id=self.run_path, no_dist=True)
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({"w": torch.zeros(2)}, storage_reader=LooksFirst(self.run_path), no_dist=True)
        self.assertIsInstance(caught.exception.failures[0][0], pawl.Mismatch)
        pawl.torch.install(unexpected="allow")
        found = {"w": torch.zeros(2)}
        dcp.load(found, storage_reader=LooksFirst(self.run_path), no_dist=True)
        self.assertEqual(found["w"].tolist(), [1, 1])

    def test_an_own_writer_goes_on_as_it_is_and_is_named(self):
        with self.assertLogs("pawl", "WARNING") as logged:
            for _ in range(2):
                dcp.save({"w": torch.ones(2)}, storage_writer=OwnWriter(self.run_path), no_dist=True)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("OwnWriter saves as torch does, not through pawl", logged.output[0])
        found = {"w": torch.zeros(2)}
        dcp.load(found, storage_reader=LooksFirst(self.run_path), no_dist=True)
        self.assertEqual(found["w"].tolist(), [1, 1])

    def test_classes_of_torch_and_of_pawl_stay_what_they_are(self):
        for cls in (dcp.HuggingFaceStorageWriter, dcp.HuggingFaceStorageReader, pawl.torch.Reader, pawl.torch.Writer):
            with self.subTest(cls=cls.__name__), self.assertNoLogs("pawl"):
                self.assertIs(type(cls(str(self.run_path))), cls)

    def test_what_was_made_before_can_be_copied(self):
        pawl.torch.uninstall()
        before = FileSystemReader(self.run_path)
        pawl.torch.install()
        for again in (copy.copy(before), pickle.loads(pickle.dumps(before))):
            self.assertIs(type(again), FileSystemReader)

    def test_own_readers_in_pickles_and_with_an_init_of_their_own(self):
        pawl.torch.install(unexpected="allow")
        dcp.save({"w": torch.ones(2), "v": torch.ones(2)}, checkpoint_id=self.run_path, no_dist=True)
        for made in (FileSystemReader(self.run_path), LooksFirst(self.run_path), CallsByName(self.run_path)):
            for reader in (made, pickle.loads(pickle.dumps(made)), copy.copy(made)):
                with self.subTest(reader=type(reader).__name__):
                    self.assertIs(type(reader), type(made))
                    found = {"w": torch.zeros(2)}
                    dcp.load(found, storage_reader=reader, no_dist=True)
                    self.assertEqual(found["w"].tolist(), [1, 1])
        pickled = pickle.dumps(LooksFirst(self.run_path))
        pawl.torch.uninstall()
        self.assertIs(type(pickle.loads(pickled)), LooksFirst)

    def test_uninstall_ends_all_of_it(self):
        pawl.torch.uninstall()
        for cls in (FileSystemReader, FileSystemWriter, LooksFirst, OwnWriter):
            with self.subTest(cls=cls.__name__):
                self.assertIs(type(cls(self.run_path)), cls)


if __name__ == "__main__":
    support.main()
