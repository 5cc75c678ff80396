# SPDX-License-Identifier: Apache-2.0
"""The callback for transformers' Trainer: training that was stopped and continued equals uninterrupted training."""

import copy
import logging
import os
import random
import signal
import warnings

import support  # first: it finds the package
import torch
import transformers
from transformers import TrainerCallback, TrainingArguments

import pawl
import pawl.torch
from pawl import _run
from pawl.torch.transformers import Callback, train

warnings.simplefilter("ignore")
transformers.utils.logging.set_verbosity_error()

SAMPLES, STEPS = 22, 18  # 3 epochs of 6 steps of 2 batches of 2; the last step of an epoch has fewer


def samples():
    generator = torch.Generator().manual_seed(5)
    return [{"input_ids": torch.randint(0, 50, (6,), generator=generator)} for _ in range(SAMPLES)]


def collate(batch):
    ids = torch.stack([one["input_ids"] for one in batch])
    return {"input_ids": ids, "labels": ids}


class Stop(Exception):
    """Training was interrupted."""


class StopAt(TrainerCallback):
    """Does something when a step ends."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def on_step_end(self, args, state, control, **parts):
        if state.global_step == self.step:
            self.action()


def stop():
    raise Stop


def make(directory, callbacks=(), model_init=False, **options):
    """A Trainer of a tiny model that uses dropout, a schedule, evaluation and accumulation."""
    settings = {
        "save_strategy": "no", "report_to": [], "disable_tqdm": True, "use_cpu": True, "seed": 11,
        "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 3,
        "logging_steps": 4, "eval_strategy": "steps", "eval_steps": 3, "learning_rate": 1e-2, "warmup_steps": 3,
        "load_best_model_at_end": False, "metric_for_best_model": "eval_loss", "dataloader_pin_memory": False,
    }  # fmt: skip
    arguments = TrainingArguments(str(directory / "hf"), **{**settings, **options})

    def model():
        torch.manual_seed(2)
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=50, n_positions=8, n_embd=8, n_layer=1, n_head=2)
        )

    trainer = transformers.Trainer(
        model=None if model_init else model(),
        model_init=model if model_init else None,
        args=arguments,
        data_collator=collate,
        train_dataset=samples(),
        eval_dataset=samples()[:4],
        callbacks=list(callbacks),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def timeless(history):
    return [
        {key: value for key, value in line.items() if "runtime" not in key and "per_second" not in key}
        for line in history
        if "train_runtime" not in line
    ]


def everything(trainer):
    """All that a resumed training must have in common with an uninterrupted one."""
    state = trainer.state
    return copy.deepcopy(
        {
            "model": dict(trainer.model.state_dict()),
            "optimizer": trainer.optimizer.state_dict()["state"],
            "scheduler": trainer.lr_scheduler.state_dict(),
            "history": timeless(state.log_history),
            "best": (state.best_metric, state.global_step, state.epoch, state.total_flos, state.max_steps),
            "random": (torch.get_rng_state(), random.getstate()),
        }
    )


class Trained(support.InDirectory):
    expected = None

    def setUp(self):
        super().setUp()
        if Trained.expected is None:
            whole = make(self.directory)
            whole.train()
            Trained.expected = everything(whole)

    def callback(self, **options):
        return Callback(self.run_path, **{"every": 2, "keep_last": 3, **options})

    def interrupted(self, step, action=stop, **options):
        trainer = make(self.directory, [self.callback(), StopAt(step, action)], **options)
        with self.assertRaises(Stop):
            train(trainer)

    def resume(self, **options):
        trainer = make(self.directory, [self.callback()], **options)
        train(trainer)
        return trainer

    def newest(self):
        return pawl.ls(self.run_path)[-1].step


class Resumed(Trained):
    def test_uninterrupted(self):
        trainer = make(self.directory, [self.callback(every=4)])
        train(trainer)
        self.assert_same(everything(trainer), self.expected)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [12, 16, STEPS])
        self.assertTrue(pawl.verify(self.run_path).ok)

    def test_stopped_at_several_steps(self):
        for step, saved in ((2, None), (3, 2), (7, 6), (18, 16)):  # step 6 ends an epoch
            with self.subTest(step=step):
                self.run_path = self.directory / f"run-{step}"
                self.interrupted(step)
                self.assertEqual(self.newest() if saved else None, saved)
                self.assert_same(everything(self.resume()), self.expected)

    def test_stopped_twice_with_model_init(self):
        whole = make(self.directory, model_init=True)
        whole.train()
        self.interrupted(5, model_init=True)
        self.interrupted(11, model_init=True)
        self.assert_same(everything(self.resume(model_init=True)), everything(whole))

    def test_killed(self):
        step = random.Random().randrange(3, STEPS + 1)
        text = (
            "import os, signal, pathlib, sys\nfrom test_transformers import *\n"
            f"kill = StopAt({step}, lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
            "train(make(pathlib.Path(sys.argv[1]), [Callback(sys.argv[1] + '/run', every=1), kill]))\n"
        )
        done = self.program(text, self.directory, check=False)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        with self.subTest(step=step):
            self.assert_same(everything(self.resume()), self.expected)

    def test_two_ranks(self):
        text = (
            "import pathlib, sys, unittest\nfrom test_transformers import *\n"
            "path, options = pathlib.Path(sys.argv[1]), {'gradient_accumulation_steps': 1, 'max_steps': 8}\n"
            "callback = lambda: Callback(path / 'run', every=2)\n"
            "whole = make(path, **options)\nwhole.train()\nexpected = everything(whole)\n"
            "case = unittest.TestCase()\n"
            "with case.assertRaises(Stop):\n    train(make(path, [callback(), StopAt(7, stop)], **options))\n"
            "case.assertEqual(pawl.ls(path / 'run')[-1].step, 6)\n"
            "again = make(path, [callback()], **options)\ntrain(again)\n"
            "support.InDirectory().assert_same(everything(again), expected)\nsupport.end_rank()\n"
        )
        self.program(text, self.directory, ranks=2)

    def test_a_signal(self):
        self.addCleanup(_run.unwatch_preemption)
        callback = self.callback(every=100)
        trainer = make(self.directory, [callback, StopAt(8, lambda: os.kill(os.getpid(), signal.SIGTERM))])
        with self.assertLogs("pawl.torch", logging.WARNING):
            train(trainer)
        self.assertTrue(callback.preempted)
        self.assertEqual((self.newest(), trainer.state.global_step), (8, 8))
        _run.unwatch_preemption()
        self.assert_same(everything(self.resume()), self.expected)

    def test_a_damaged_checkpoint_is_passed_over(self):
        self.interrupted(9)
        data = next(self.run_path.glob("step-00000008/data-*"))
        raw = bytearray(data.read_bytes())
        raw[-50] ^= 1
        data.write_bytes(raw)
        with self.assertLogs("pawl.torch", logging.WARNING) as logged:
            resumed = self.resume()
        self.assertIn("step 8 is damaged", logged.output[0])
        self.assert_same(everything(resumed), self.expected)

    def test_a_finished_training_trains_no_more(self):
        whole = make(self.directory, max_steps=8)
        whole.train()
        expected = everything(whole)
        for _ in range(2):
            again = self.resume(max_steps=8)
            self.assertEqual(again.state.global_step, 8)
            self.assert_same(dict(again.model.state_dict()), expected["model"])
        self.assertEqual(self.newest(), 8)

    def test_callbacks_with_a_state(self):
        def patient():
            return transformers.EarlyStoppingCallback(early_stopping_patience=50, early_stopping_threshold=1e9)

        first = make(self.directory, [self.callback(), patient(), StopAt(9, stop)])
        with self.assertRaises(Stop):
            train(first)
        second = make(self.directory, [self.callback(), patient()], restore_callback_states_from_checkpoint=True)
        train(second)
        kept = next(one for one in second.callback_handler.callbacks if hasattr(one, "early_stopping_patience"))
        self.assertEqual(kept.early_stopping_patience_counter, 5)  # of six evaluations all but the first


class Saved(Trained):
    def test_metrics_and_names(self):
        train(make(self.directory, [self.callback(every=3, best="eval_loss")]))
        found = pawl.ls(self.run_path)
        self.assertEqual(found[-1].step, STEPS)
        self.assertTrue(all("eval_loss" in info.metrics for info in found))
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint["training/step"], STEPS)
            self.assertIn("loader/trainer", checkpoint)
            self.assertIn("model/transformer/wte/weight", checkpoint)
            self.assertIn("optimizer/transformer/wte/weight/exp_avg", checkpoint)


class Refused(Trained):
    def refused(self, pattern, trainer, call=train, **arguments):
        with self.assertRaisesRegex(pawl.UsageError, pattern):
            call(trainer, **arguments)

    def test_wrong_calls(self):
        directory, one = self.directory, self.callback
        self.refused(r"train\(trainer\) instead of", make(directory, [one()]), transformers.Trainer.train)
        self.refused("has 0 of pawl's callbacks", make(directory))
        self.refused("has 2 of pawl's callbacks", make(directory, [one(), one()]))
        self.refused("Trainer's own checkpoints", make(directory, [one()]), resume_from_checkpoint="x")
        self.refused("auto_find_batch_size=True", make(directory, [one()], auto_find_batch_size=True))
        jit = make(directory, [one()])
        jit.args.enable_jit_checkpoint = True  # given to the arguments it would take SIGTERM from the tests
        self.refused("enable_jit_checkpoint=True", jit)
        with self.assertRaisesRegex(pawl.UsageError, "model= is the Trainer's own"):
            Callback(self.run_path, model=None)
        old = make(directory, [one()])
        old._load_rng_state = None
        self.refused(r"has no _load_rng_state\(\)", old)
        self.assertFalse(self.run_path.exists())

    def test_other_data_than_before(self):
        self.interrupted(5)
        for option, pattern in (
            ({"per_device_train_batch_size": 1}, "samples of a step: 4 then, 2 now"),
            ({"data_seed": 12}, "seed: .* then, 12 now"),
            ({"gradient_accumulation_steps": 1, "per_device_train_batch_size": 4}, "batches of a step: 2 then, 1 now"),
        ):
            self.refused(pattern, make(self.directory, [self.callback()], **option))
        allowed = make(self.directory, [self.callback()], per_device_train_batch_size=4, ignore_data_skip=True)
        train(allowed)

    def test_the_run_of_something_else(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": 1}), 5)
        with self.assertRaisesRegex(pawl.NotFound, "not saved by the callback"):
            self.resume()

    def test_its_own_checkpoints_are_mentioned(self):
        with self.assertLogs("pawl.torch", logging.WARNING) as logged:
            train(make(self.directory, [self.callback()], save_strategy="epoch", max_steps=1, eval_strategy="no"))
        self.assertIn('save_strategy="no"', logged.output[0])


if __name__ == "__main__":
    support.main()
