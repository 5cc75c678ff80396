# SPDX-License-Identifier: Apache-2.0
"""Training that is saved while it goes on, and resumed: equal, bit for bit, to training without a save."""

import copy
import logging
import warnings

import support  # first: it finds the package
import torch
from torch import nn

import pawl
import pawl.torch
from jobs import CASES, SAVED_AT, STEPS, WIDTH, Job, Scaled, checkpointer, layers, train


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
        job = self.adam()
        with checkpointer(self.run_path, job) as ckpt:
            job.step()
            ckpt.save()
            expected = job.everything()
            ckpt.fence()
            with torch.no_grad():
                for parameter in job.model.parameters():
                    parameter.zero_()
            ckpt.wait()
            ckpt.restore()
            self.assert_same(job.everything(), expected)

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
