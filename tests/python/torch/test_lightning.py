# SPDX-License-Identifier: Apache-2.0
"""The plug-in for Lightning, with its own Trainer: resumed training equals uninterrupted training."""

import copy
import logging
import os
import re
import shutil
import warnings

import support  # first: it finds the package
import lightning.pytorch
import pytorch_lightning
import torch
from lightning.fabric.utilities.data import AttributeDict
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader

import pawl
import pawl.torch
from pawl.torch.lightning import CheckpointIO

warnings.simplefilter("ignore")
for package in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric"):
    logging.getLogger(package).setLevel(logging.ERROR)

EPOCHS, BATCHES = 4, 6


class Steps:
    """A small regression with a scheduler, hyperparameters and a hook; of either package's LightningModule."""

    def __init__(self, width=16, options=None):
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 1))
        self.seen = []

    def training_step(self, batch, _index):
        x = batch[0]
        self.seen.append(float(x.sum()))
        loss = (self.layers(x) - x.sum(1, keepdim=True)).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=EPOCHS + 1)]

    def on_save_checkpoint(self, checkpoint):
        checkpoint["seen"] = tuple(self.seen)

    def on_load_checkpoint(self, checkpoint):
        self.seen = list(checkpoint["seen"])


class Model(Steps, lightning.pytorch.LightningModule):
    pass


class OtherModel(Steps, pytorch_lightning.LightningModule):
    pass


def loader():
    generator = torch.Generator().manual_seed(3)
    data = torch.utils.data.TensorDataset(torch.randn(8 * BATCHES, 4, generator=generator))
    return StatefulDataLoader(data, batch_size=8)


class Lightning(support.InDirectory):
    def trainer(self, package=lightning.pytorch, callbacks=(), **options):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        return package.Trainer(
            accelerator="cpu",
            devices=1,
            plugins=[CheckpointIO()],
            callbacks=list(callbacks),
            default_root_dir=self.directory,
            **{"enable_checkpointing": bool(callbacks), "max_epochs": EPOCHS, **quiet, **options},
        )

    def rotating(self, package=lightning.pytorch, **options):
        every = {"every_n_train_steps": 5} if not options else options
        return package.callbacks.ModelCheckpoint(
            dirpath=self.directory / "kept", save_top_k=2, save_last=True, monitor="loss", **every
        )

    def fitted(self, **options):
        model = Model()
        self.trainer(**options).fit(model, loader())
        return model


class Resumed(Lightning):
    def resumed(self, package, model_type):
        whole = model_type()
        trainer = self.trainer(package)
        trainer.fit(whole, loader())
        expected = copy.deepcopy((whole.state_dict(), trainer.optimizers[0].state_dict(), whole.seen))
        within = {"every_n_train_steps": 3}, {"max_steps": 9}
        at_the_end = {"save_on_train_epoch_end": True}, {"max_epochs": 2}
        for when, stop in (within, at_the_end):
            with self.subTest(stop=stop):
                first = self.trainer(package, callbacks=[self.rotating(package, **when)], **stop)
                first.fit(model_type(), loader())
                model = model_type()
                second = self.trainer(package, callbacks=[self.rotating(package, **when)])
                second.fit(model, loader(), ckpt_path="last")
                self.assertEqual((first.global_step < 24, second.global_step), (True, EPOCHS * BATCHES))
                self.assert_same((model.state_dict(), second.optimizers[0].state_dict(), model.seen), expected)
            shutil.rmtree(self.directory / "kept")

    def test_lightning(self):
        self.resumed(lightning.pytorch, Model)

    def test_pytorch_lightning(self):
        self.resumed(pytorch_lightning, OtherModel)


class Files(Lightning):
    def test_rotation_keeps_two_and_the_last(self):
        callback = self.rotating()
        self.fitted(callbacks=[callback])
        names = sorted(os.listdir(self.directory / "kept"))
        self.assertEqual(len(names), 3, names)
        self.assertIn("last.ckpt", names)
        for path in (*callback.best_k_models, callback.last_model_path):
            self.assertTrue(pawl.verify(path).ok)
            self.assertEqual(pawl.torch.load(path)["global_step"] % 5, 0)

    def test_a_link_to_the_last(self):
        callback = self.rotating(save_on_train_epoch_end=True)
        callback.save_last = "link"
        self.fitted(callbacks=[callback])
        last = self.directory / "kept" / "last.ckpt"
        self.assertTrue(last.is_symlink())
        self.assertIn("state_dict", pawl.torch.load(last))
        CheckpointIO().remove_checkpoint(last)
        self.assertFalse(last.is_symlink())
        self.assertEqual(len(os.listdir(self.directory / "kept")), 2)

    def test_a_damaged_checkpoint_is_named(self):
        path = self.directory / "a.ckpt"
        trainer = self.trainer(max_epochs=1)
        trainer.fit(Model(), loader())
        trainer.save_checkpoint(path)
        with next(path.glob("step-*/data-*")).open("r+b") as file:
            file.seek(-100, os.SEEK_END)
            found = file.read(1)
            file.seek(-100, os.SEEK_END)
            file.write(bytes([found[0] ^ 1]))
        with self.assertRaises(pawl.Damaged) as caught:
            self.trainer().fit(Model(), loader(), ckpt_path=path)
        self.assertIn("data-", caught.exception.path)
        self.assertIn("object/", str(caught.exception))

    def test_what_is_no_checkpoint_is_not_removed(self):
        plugin = CheckpointIO()
        plugin.remove_checkpoint(self.directory / "nothing")
        run, file, empty, foreign = (self.directory / name for name in ("run", "file", "empty", "foreign"))
        with pawl.Run(run, no_event_file=True) as opened:
            opened.save(pawl.State({"x": 1}), 0)
        file.write_text("x")
        empty.mkdir()
        pawl.torch.save({"x": 1}, foreign)
        (foreign / "notes.txt").write_text("x")
        for path, found in ((run, "training job"), (file, "a file"), (empty, ""), (foreign, "notes.txt")):
            with self.assertRaisesRegex(pawl.UsageError, f"is not removed(.|\n)*found: .*{found}"):
                plugin.remove_checkpoint(path)
            self.assertTrue(path.exists())
        os.remove(foreign / "notes.txt")
        plugin.remove_checkpoint(str(foreign))
        self.assertFalse(foreign.exists())


class Contents(Lightning):
    def test_hyperparameters(self):
        options = {"betas": (0.9, 0.99), "nested": AttributeDict(a=1, b=[AttributeDict(c=None)])}
        model = Model(options=options)
        trainer = self.trainer(max_epochs=1)
        trainer.fit(model, loader())
        trainer.save_checkpoint(self.run_path)
        found = pawl.torch.load(self.run_path)["hyper_parameters"]
        self.assertEqual(found, {"width": 16, "options": options})

    def test_a_model_alone_as_the_page_says(self):
        model = Model(width=8)
        trainer = self.trainer(max_epochs=1)
        trainer.fit(model, loader())
        trainer.save_checkpoint(self.run_path)
        page = (support.SOURCE / "docs" / "python.md").read_text(encoding="utf-8")
        program = re.search(r"```python\n(kept = .*?)```", page, re.DOTALL).group(1)
        names = {"pawl": pawl, "MyModule": Model, "path": self.run_path}
        exec(program, names)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(names["model"].state_dict()[name], tensor))

    def test_what_only_pickle_could_keep_is_named(self):
        model = Model(options=[print])
        trainer = self.trainer(max_epochs=1)
        trainer.fit(model, loader())
        with self.assertRaisesRegex(pawl.UsageError, r"hyper_parameters.options.0 is a (.|\n)*ignore=") as caught:
            trainer.save_checkpoint(self.run_path)
        self.assertEqual(caught.exception.entry, "object/hyper_parameters/options/0")
        self.assertFalse(self.run_path.exists())

    def test_wrong_paths_and_arguments(self):
        plugin, file = CheckpointIO(), self.directory / "file.ckpt"
        torch.save({"a": 1}, file)
        with self.assertRaisesRegex(pawl.UsageError, "is a file, such as torch.save writes"):
            plugin.load_checkpoint(file)
        with self.assertRaisesRegex(pawl.NotFound, "no such directory"):
            plugin.load_checkpoint(self.directory / "nothing")
        with self.assertRaisesRegex(pawl.UsageError, "is a URL"):
            plugin.save_checkpoint({}, "s3://bucket/a.ckpt")
        with self.assertRaisesRegex(pawl.UsageError, "map_location is a function"):
            plugin.load_checkpoint(self.run_path, map_location=lambda storage, _: storage)
        with self.assertRaisesRegex(pawl.UsageError, "storage_options is a str"):
            plugin.save_checkpoint({}, self.run_path, "x")
        plugin.save_checkpoint({"a": torch.ones(2)}, self.run_path, {"deadline_s": 60})
        self.assertEqual(plugin.load_checkpoint(self.run_path, "meta")["a"].device.type, "meta")
        plugin.teardown()


if __name__ == "__main__":
    support.main()
