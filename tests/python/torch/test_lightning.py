# SPDX-License-Identifier: Apache-2.0
"""Lightning saves and resumes through pawl's CheckpointIO."""

import logging
import pathlib
import unittest
import warnings

import support  # first: it finds the package
import torch

try:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
except ImportError:
    raise unittest.SkipTest("there is no Lightning in this Python") from None

import pawl
import pawl.torch
from pawl.torch.lightning import CheckpointIO

for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)
warnings.simplefilter("ignore")


class Model(lightning.LightningModule):
    def __init__(self, width=8):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1)
        )

    def training_step(self, batch, _):
        loss = self.net(batch).pow(2).mean()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


def loader():
    return torch.utils.data.DataLoader(torch.arange(160.0).view(40, 4) / 160, batch_size=8)


class Lightning(support.InDirectory):
    def trainer(self, epochs, **options):
        return lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=self.directory,
            **{"plugins": [CheckpointIO()], "enable_checkpointing": False, **options},
        )

    def fit(self, epochs, ckpt_path=None, **options):
        lightning.seed_everything(3, verbose=False)
        model, trainer = Model(), self.trainer(epochs, **options)
        trainer.fit(model, loader(), ckpt_path=ckpt_path)
        return model, trainer

    def test_a_resumed_training_equals_the_uninterrupted(self):
        expected, _ = self.fit(4)
        _, trainer = self.fit(2)
        trainer.save_checkpoint(self.run_path)
        self.assertTrue((self.run_path).is_dir())
        found, trainer = self.fit(4, ckpt_path=str(self.run_path))
        self.assertEqual(trainer.global_step, 20)
        self.assert_same(found.state_dict(), expected.state_dict())
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint["object"]["epoch"], 2)
            self.assertEqual(checkpoint["object/state_dict/net.0.weight"].shape, (8, 4))

    def test_model_checkpoint_rotates(self):
        callback = ModelCheckpoint(self.directory / "best", monitor="loss", save_top_k=2, save_last=True)
        self.fit(5, callbacks=[callback], enable_checkpointing=True)
        kept = sorted(path.name for path in (self.directory / "best").iterdir())
        self.assertEqual(len(kept), 3, kept)
        self.assertIn("last.ckpt", kept)
        found = pawl.torch.load(callback.best_model_path)
        self.assertEqual(found["hyper_parameters"], {"width": 8})

    def test_a_damaged_checkpoint_is_named(self):
        _, trainer = self.fit(1)
        trainer.save_checkpoint(self.run_path)
        data = next(self.run_path.glob("step-*/*.safetensors"))
        raw = bytearray(data.read_bytes())
        raw[-1] ^= 1
        data.write_bytes(raw)
        with self.assertRaises(pawl.Damaged) as caught:
            self.fit(2, ckpt_path=str(self.run_path))
        self.assertEqual(caught.exception.path, str(data))

    def test_what_needs_pickle_is_named(self):
        class Odd(Model):
            def on_save_checkpoint(self, checkpoint):
                checkpoint["tokenizer"] = {"net": torch.nn.Linear(1, 1)}

        trainer = self.trainer(1)
        trainer.fit(Odd(), loader())
        with self.assertRaisesRegex(pawl.UsageError, "object.tokenizer.net is a torch.nn.modules.linear.Linear"):
            trainer.save_checkpoint(self.run_path)

    def test_only_what_it_has_written_is_removed(self):
        io = CheckpointIO()
        io.save_checkpoint({"a": 1}, self.run_path)
        io.remove_checkpoint(self.run_path)
        self.assertFalse(self.run_path.exists())
        job = self.directory / "job"
        with pawl.Run(job) as run:
            run.save(pawl.State({"x": 1}), 3)
        other = self.directory / "other"
        other.mkdir()
        (other / "thesis.txt").write_text("mine")
        for path in (job, other, self.directory / "nothing"):
            with self.assertLogs("pawl.torch", logging.WARNING):
                io.remove_checkpoint(path)
        self.assertEqual([info.step for info in pawl.ls(job)], [3])
        self.assertTrue((other / "thesis.txt").exists())
        with self.assertRaises(TypeError):
            io.save_checkpoint({}, pathlib.Path("x"), storage_options={})


if __name__ == "__main__":
    support.main()
