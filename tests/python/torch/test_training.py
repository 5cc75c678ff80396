# SPDX-License-Identifier: Apache-2.0
"""Training that is saved while it goes on, and resumed: equal, bit for bit, to training without a save."""

import copy
import logging
import os
import shutil
import signal
import unittest
import warnings
from unittest import mock

import support  # first: it finds the package
import torch
import torch._inductor.config
from torch import nn

import pawl
import pawl.torch
from pawl.torch import _checkpointer
from jobs import CASES, SAVED_AT, STEPS, WIDTH, Job, Scaled, checkpointer, compiled, layers, train


class Resumed(support.InDirectory):
    """Each kind of training: saved while it goes on, on a slow disk, and resumed from that."""

    def resume(self, make):
        torch.manual_seed(3)
        expected = train(make())
        torch.manual_seed(3)
        job = make()
        with checkpointer(self.run_path, job) as ckpt:
            self.assertIsNone(ckpt.restore())
            self.assert_same(train(job, ckpt, save_at=SAVED_AT), expected)
        torch.manual_seed(4)
        job = make()
        with checkpointer(self.run_path, job) as ckpt:
            report = ckpt.restore()
            self.assertEqual((report.step, ckpt.steps, [str(i) for i in report.items]), (SAVED_AT, SAVED_AT, []))
            if isinstance(job, Scaled):
                job.count = SAVED_AT
            self.assert_same(train(job, ckpt, SAVED_AT), expected)

    @unittest.skipUnless(shutil.which("g++"), "inductor needs a C++ compiler")
    def test_buffers_that_inductors_code_changes(self):
        """On a CPU "reduce-overhead" captures no graphs, which CUDA alone has: the code is that of the default mode."""
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(self.directory / "inductor")}
        with mock.patch.dict(os.environ, cache), torch._inductor.config.patch(compile_threads=1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.resume(compiled(backend="inductor", mode="reduce-overhead"))
        self.assertTrue(list((self.directory / "inductor").rglob("*.so")), "nothing was compiled")


def add_case(name, make):
    def test(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.resume(make)

    setattr(Resumed, "test_" + "".join(c if c.isalnum() else "_" for c in name), test)


for case_name, case in CASES.items():
    add_case(case_name, case)


class Fence(support.InDirectory):
    def adam(self):
        model = layers()
        return Job(model, torch.optim.AdamW(model.parameters(), fused=True))

    def test_without_the_hook_a_checkpoint_would_be_torn(self):
        """What the other tests show is shown by the hook: without it the same training is not resumed."""
        torch.manual_seed(3)
        expected = train(self.adam())
        torch.manual_seed(3)
        job = self.adam()
        with (
            self.assertRaisesRegex(pawl.UsageError, "was changed while it was being saved"),
            checkpointer(self.run_path, job, bandwidth_bytes_per_s=4 << 20) as ckpt,
        ):
            pawl.torch._hook.leave_steps_alone(ckpt)
            train(job, ckpt, save_at=SAVED_AT)
            ckpt.run.wait()  # which does not look
        job = self.adam()
        with checkpointer(self.run_path, job) as ckpt:
            ckpt.restore()
            found = train(job, ckpt, SAVED_AT)
        self.assertFalse(torch.equal(found["model"]["0.weight"], expected["model"]["0.weight"]))

    def test_a_step_that_bypasses_the_hook_is_said_at_the_next_save(self):
        job = self.adam()
        with checkpointer(self.run_path, job) as ckpt:
            train(job, ckpt, save_at=SAVED_AT)
            pawl.torch._hook.leave_steps_alone(ckpt)
            ckpt.save()
            ckpt.step()
            with self.assertLogs("pawl.torch", logging.WARNING) as logs:
                ckpt.save()
        self.assertIn("no optimizer's step waited for the save of step 6", logs.output[0])
        self.assertIn("call fence()", logs.output[0])

    def test_a_tensor_that_is_changed_while_it_is_saved_is_named_S01(self):
        job = self.adam()
        with checkpointer(self.run_path, job, bandwidth_bytes_per_s=4 << 20) as ckpt:
            train(job, ckpt, save_at=SAVED_AT)
            ckpt.wait()
            ckpt.save()
            with torch.no_grad():
                job.model[1].weight.clamp_(-0.01, 0.01)
            with self.assertLogs("pawl.torch", logging.ERROR):
                job.step()
            with self.assertRaises(pawl.UsageError) as caught:
                ckpt.save()
            self.assertEqual((caught.exception.entry, caught.exception.step), ("model/1/weight", STEPS))
            self.assertIn("fence()", caught.exception.next)
            self.assertIn("nothing of step 6 remains", caught.exception.safe)
            self.assertEqual([info.step for info in pawl.ls(self.run_path)], [SAVED_AT])
            ckpt.save()
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [SAVED_AT, STEPS])

    def test_a_change_before_the_wait_is_noticed_there_S01(self):
        job = self.adam()
        for last in ("wait", "close"):
            with self.subTest(last):
                ckpt = checkpointer(self.directory / last, job, bandwidth_bytes_per_s=4 << 20)
                job.step()
                ckpt.step()
                ckpt.save()
                with torch.no_grad():
                    job.model[1].weight.clamp_(-0.01, 0.01)
                with self.assertRaisesRegex(pawl.UsageError, "model/1/weight was changed while it was being saved"):
                    getattr(ckpt, last)()
                ckpt.close()

    def test_a_newer_step_is_said_at_the_first_save(self):
        job = self.adam()
        with checkpointer(self.run_path, job, every=1) as ckpt:
            train(job, ckpt)
        with checkpointer(self.run_path, job) as ckpt, self.assertLogs("pawl", logging.WARNING) as logs:
            ckpt.restore(step=2)
            ckpt.step()
            ckpt.save()
            job.step()
            ckpt.step()
            ckpt.save()
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertRegex(logs.output[0], "has step 6, which is newer than step 3 that is saved now")

    def test_fence_before_a_change_outside_of_the_optimizer(self):
        changes = {
            "zero_": lambda parameter: parameter.zero_(),
            "clamp_": lambda parameter: parameter.clamp_(-0.001, 0.001),
            "data": lambda parameter: parameter.data.add_(1),
            "NumPy": lambda parameter: parameter.detach().numpy().fill(3),
        }
        job = self.adam()
        for name, change in changes.items():
            with self.subTest(name), checkpointer(self.directory / name, job) as ckpt:
                job.step()
                ckpt.save()
                expected = job.everything()
                ckpt.fence()
                with torch.no_grad():
                    for parameter in job.model.parameters():
                        change(parameter)
                ckpt.wait()
                ckpt.restore()
                self.assert_same(job.everything(), expected)

    def test_changes_that_no_version_shows(self):
        """Why a version is a hint alone, and buffers are copied."""
        norm, weight = nn.BatchNorm1d(4), nn.Parameter(torch.zeros(4))
        changes = {
            "BatchNorm": (norm.running_mean, lambda: norm(torch.randn(8, 4))),
            "p.data": (weight, lambda: weight.data.add_(1)),
            "NumPy": (weight, lambda: weight.detach().numpy().fill(3)),
            "vector_to_parameters": (weight, lambda: nn.utils.vector_to_parameters(torch.ones(4), [weight])),
        }
        for name, (tensor, change) in changes.items():
            with self.subTest(name):
                version, before = tensor._version, tensor.detach().clone()
                change()
                self.assertEqual(tensor._version, version)
                self.assertFalse(torch.equal(tensor, before))

    def test_tensors_without_a_version(self):
        with torch.inference_mode():
            still = torch.ones(300)
        job = self.adam()
        with checkpointer(self.run_path, job, extra={"still": still}, by_reference=[still]) as ckpt:
            train(job, ckpt, save_at=SAVED_AT)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(torch.from_dlpack(checkpoint["extra/still"].read()).tolist(), [1.0] * 300)

    def test_an_optimizer_that_is_none_of_torchs_is_said_at_the_next_save(self):
        class Plain:
            """As many that people write for themselves."""

            def __init__(self, parameters):
                self.param_groups, self.state = [{"params": list(parameters), "lr": 0.1}], {}

            def zero_grad(self):
                for parameter in self.param_groups[0]["params"]:
                    parameter.grad = None

            def step(self):
                for parameter in self.param_groups[0]["params"]:
                    parameter.data -= 0.1 * parameter.grad

        model = layers()
        job = Job(model, Plain(model.parameters()))
        with checkpointer(self.run_path, job) as ckpt:
            ckpt.save()
            job.step()
            ckpt.step()
            with self.assertLogs("pawl.torch", logging.WARNING) as logs:
                ckpt.save()
        self.assertIn("is no torch.optim.Optimizer", logs.output[0])

    def test_load_state_dict_in_place_keeps_the_state(self):
        job = self.adam()
        job.step()
        with checkpointer(self.run_path, job) as ckpt:
            ckpt.save()
            ckpt.wait()
            saved = ckpt._saved
            job.model.load_state_dict({k: v.clone() + 1 for k, v in job.model.state_dict().items()})
            ckpt.steps = 1
            ckpt.save()
            self.assertIs(ckpt._saved, saved)
            expected = job.everything()
            ckpt.wait()
            job.step()
            ckpt.restore()
            self.assert_same(job.everything(), expected)

    def test_large_copies_are_named(self):
        job = self.adam()
        job.model[1].requires_grad_(False)
        job.optimizer = torch.optim.SGD(job.model[0].parameters(), lr=0.1)
        with mock.patch.object(_checkpointer, "_BIG_COPY", 1 << 20), self.assertLogs("pawl.torch", "INFO") as logs:
            with checkpointer(self.run_path, job) as ckpt:
                ckpt.save()
        self.assertIn("model/1/weight (0.0 GB) is copied at each save", "\n".join(logs.output))
        self.assertIn("by_reference=[...]", "\n".join(logs.output))

    def test_a_grace_that_is_too_short_says_so_S13(self):
        job = self.adam()
        options = {"bandwidth_bytes_per_s": 1 << 20, "grace_s": 0.2, "signals": (signal.SIGUSR1,)}
        with self.assertRaises(pawl.Canceled), checkpointer(self.run_path, job, **options) as ckpt:
            job.step()
            signal.raise_signal(signal.SIGUSR1)
            with self.assertLogs("pawl"), self.assertRaises(pawl.Timeout) as caught:
                ckpt.step()
        self.assertRegex(str(caught.exception), "the final save of step 1 (did not fit into|was not begun).*grace time")
        self.assertIn("ask the scheduler for more grace time", caught.exception.next)

    def test_memory_that_was_replaced_is_noticed(self):
        """load_state_dict(assign=True), p.data =, half(), new optimizer state: each save has what is there."""

        def assign(job):
            job.model.load_state_dict({k: v.clone() + 1 for k, v in job.model.state_dict().items()}, assign=True)
            job.optimizer.param_groups[0]["params"] = list(job.model.parameters())
            job.optimizer.state.clear()

        def data(job):
            job.model[1].weight.data = torch.full((WIDTH, WIDTH), 3.0)

        def transposed(job):
            job.model[1].weight.data = job.model[1].weight.data.t()

        def from_a_vector(job):
            nn.utils.vector_to_parameters(
                nn.utils.parameters_to_vector(job.model.parameters()) * 2, job.model.parameters()
            )

        def adopted(job):
            job.optimizer.load_state_dict(copy.deepcopy(job.optimizer.state_dict()))

        job = self.adam()
        job.step()
        with pawl.torch.Checkpointer(self.run_path, **job.parts()) as ckpt:
            for step, change in enumerate((assign, data, from_a_vector, transposed, adopted)):
                with self.subTest(change=change.__name__):
                    ckpt.save()
                    ckpt.fence()
                    change(job)
                    ckpt.steps = step + 1
                    ckpt.save()
                    ckpt.wait()
                    expected = job.everything()
                    with torch.no_grad():
                        job.model[1].weight.zero_()
                    ckpt.restore()
                    self.assert_same(job.everything(), expected)

    def test_half_is_saved_as_half(self):
        job = self.adam()
        with pawl.torch.Checkpointer(self.run_path, model=job.model) as ckpt:
            ckpt.save()
            job.model.half()
            ckpt.steps = 1
            ckpt.save()
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.entry("model/1/weight").dtype, "F16")

    def test_half_with_an_optimizer(self):
        job = self.adam()
        job.step()
        with pawl.torch.Checkpointer(self.run_path, **job.parts()) as ckpt:
            ckpt.save()
            ckpt.fence()
            job.model.half()
            ckpt.steps = 1
            ckpt.save()
            expected = job.everything()
            ckpt.wait()
            with torch.no_grad():
                job.model[1].weight.zero_()
            ckpt.restore()
            self.assert_same(job.everything(), expected)

    def test_by_reference_spares_the_copy(self):
        model = layers()
        model[1].requires_grad_(False)
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
        with pawl.torch.Checkpointer(
            self.run_path, model=model, optimizer=optimizer, by_reference=[model[1].weight]
        ) as ckpt:
            ckpt.save()
            self.assertNotIn("model/1/weight", ckpt._shadows)
            self.assertIn("model/1/bias", ckpt._shadows)

    def test_skipped_while_busy_S04(self):
        job = self.adam()
        with checkpointer(self.run_path, job, on_busy="skip", bandwidth_bytes_per_s=4 << 20) as ckpt:
            job.step()
            ckpt.steps = 1
            ckpt.save()
            ckpt.steps = 2
            ckpt.save()
            self.assertTrue(ckpt.run.wait().skipped)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1])


if __name__ == "__main__":
    support.main()
