# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device, which are copied beside the training: CPU tensors take the place of a GPU's, and copies are
made by a thread, later."""

import copy
import threading
from unittest import mock

import support
import torch
from torch import nn

import pawl
import pawl.torch
from pawl.torch import _streams


class LateStreams:
    """Copies what is steady once its gate is open."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.failing = False
        self.waits = 0
        self.capturing = False
        self.complete = True
        self._thread = None

    def start(self, changing, steady):
        changing.copy()
        self._thread = threading.Thread(target=self._copy, args=(steady,), daemon=True)
        self._thread.start()

    def _copy(self, steady):
        self.gate.wait(60)
        steady.copy()

    def is_complete(self):
        if self.failing:
            raise RuntimeError("an illegal memory access was encountered")
        return self.complete and not self._thread.is_alive()

    def wait(self):
        self.waits += 1
        if self.capturing:
            return False
        if self._thread is not None:
            self._thread.join()
        return True


def job():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(300, 300), nn.BatchNorm1d(300), nn.Linear(300, 300))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def backward(model):
    model(torch.randn(8, 300)).square().mean().backward()


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        backward(model)
        optimizer.step()


def state_of(model, optimizer):
    return copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})


def save(ckpt, step):
    ckpt.steps = step
    ckpt.save()
    ckpt.wait()


class Device(support.InDirectory):
    """Each save is of the moment in which it was called."""

    def setUp(self):
        super().setUp()
        self.streams = LateStreams()
        patched = mock.patch.object(_streams, "streams_of", lambda _device: self.streams)
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(self.streams.gate.set)

    def restored(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            ckpt.restore()
            return state_of(model, optimizer)

    def test_a_save_reads_copies_when_they_are_made(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 3)
            for step in (3, 4):
                ckpt.steps = step
                self.streams.gate.clear()
                expected = state_of(model, optimizer)
                ckpt.save()
                backward(model)  # BatchNorm's buffers change
                with self.assertRaises(pawl.Timeout):
                    ckpt.run.wait(0.2)
                timer = threading.Timer(0.2, self.streams.gate.set)
                timer.start()
                optimizer.step()  # comes after the copies
                self.assertTrue(self.streams.gate.is_set())
                ckpt.wait()
                self.assert_saved(step, expected)
                train(model, optimizer, 1)

    def assert_saved(self, step, expected):
        """The checkpoint of a step has these tensors, bit for bit."""
        parameters = [name for name, _ in job()[0].named_parameters()]
        tensors = {f"model/{name}": tensor for name, tensor in expected["model"].items()}
        for number, slots in expected["optimizer"]["state"].items():
            tensors.update({f"optimizer/{parameters[number]}/{slot}": tensor for slot, tensor in slots.items()})
        with pawl.open(self.run_path, step=step) as checkpoint:
            for name, tensor in tensors.items():
                found = torch.from_dlpack(checkpoint[name.replace(".", "/")])
                self.assertTrue(torch.equal(found.reshape(tensor.shape), tensor), name)

    def test_a_step_does_not_wait_until_copies_are_written(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer, **support.SLOWER) as ckpt:
            train(model, optimizer, 2)
            ckpt.steps = 2
            expected = state_of(model, optimizer)
            self.streams.gate.clear()
            with mock.patch.object(self.streams, "wait", self.opens_the_gate(self.streams.wait)):
                ckpt.save()
                train(model, optimizer, 2)
            with self.assertRaises(pawl.Timeout):
                ckpt.run.wait(-1)
            self.assertGreater(self.streams.waits, 0)
            ckpt.wait()
        self.assert_same(self.restored(), expected)

    def opens_the_gate(self, wait):
        """The copies are made while somebody waits for them, and not before."""

        def waits():
            self.streams.gate.set()
            return wait()

        return waits

    def test_each_of_several_optimizers_comes_after_the_copies(self):
        """They may step on streams of their own."""
        model, optimizer = job()
        other = torch.optim.SGD([torch.zeros(3, requires_grad=True)])
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 1)
            ckpt.steps = 1
            self.streams.complete = False
            ckpt.save()
            before = self.streams.waits
            optimizer.step()
            other.step()
            self.assertEqual(self.streams.waits, before + 2)
            self.streams.complete = True
            ckpt.wait()
            before = self.streams.waits
            optimizer.step()
            self.assertEqual(self.streams.waits, before)

    def test_while_a_graph_is_captured_the_save_is_waited_for(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 1)
            ckpt.steps = 1
            expected = state_of(model, optimizer)
            self.streams.gate.clear()
            self.streams.capturing = True
            ckpt.save()
            with self.assertRaises(pawl.Timeout):
                ckpt.fence(0.1)
            threading.Timer(0.2, self.streams.gate.set).start()
            train(model, optimizer, 2)
            self.assertTrue(self.streams.gate.is_set())
            ckpt.wait()
        self.assert_same(self.restored(), expected)

    def test_a_job_continues_as_if_it_had_not_stopped(self):
        model, optimizer = job()
        train(model, optimizer, 6)
        expected = state_of(model, optimizer)
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer, every=3) as ckpt:
            for _ in range(3):
                train(model, optimizer, 1)
                ckpt.step()
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            ckpt.restore()
            train(model, optimizer, 3)
            self.assert_same(state_of(model, optimizer), expected)

    def test_copies_that_fail_fail_the_save_alone(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 1)
            ckpt.steps = 1
            self.streams.failing = True
            with self.assertLogs("pawl", "ERROR") as log:
                ckpt.save()
                with self.assertRaises(pawl.StorageError) as caught:
                    ckpt.wait()
            self.assertIn("illegal memory access", "".join(log.output))
            self.assertIn("could not be copied to host memory", str(caught.exception))
            self.assertIn('"cpu"', str(caught.exception))
            self.streams.failing = False
            train(model, optimizer, 1)
            expected = state_of(model, optimizer)
            save(ckpt, 2)
        self.assert_same(self.restored(), expected)

    def test_s01_a_tensor_that_is_changed_before_it_is_copied_is_named(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 1)
            ckpt.steps = 1
            self.streams.gate.clear()
            ckpt.save()
            with torch.no_grad():
                model[0].weight.clamp_(-0.1, 0.1)
            threading.Timer(0.2, self.streams.gate.set).start()
            ckpt.fence()
            ckpt.steps = 2
            with self.assertRaises(pawl.UsageError) as caught:
                ckpt.save()
            self.assertIn("model/0/weight was changed while it was being saved", str(caught.exception))

    def test_a_model_that_was_replaced_is_copied_anew(self):
        model, optimizer = job()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            train(model, optimizer, 1)
            ckpt.steps = 1
            self.streams.gate.clear()
            ckpt.save()
            before = model[0].weight.detach().clone()
            model[0].weight.data = torch.zeros(300, 300)  # no fence: the old memory is still being copied
            self.streams.gate.set()
            ckpt.wait()
            with pawl.open(self.run_path, step=1) as checkpoint:
                self.assertTrue(torch.equal(torch.from_dlpack(checkpoint["model/0/weight"]), before))
            save(ckpt, 2)
        self.assertEqual(self.restored()["model"]["0.weight"].abs().max(), 0)


if __name__ == "__main__":
    support.main()
