# SPDX-License-Identifier: Apache-2.0
"""For each way in which a restore or a save fails: what PyTorch does, silent ones first, and what pawl says."""

import collections
import contextlib
import copy
import errno
import gc
import logging
import os
import resource
import shutil
import threading
import time
import unittest.mock

import support  # first: it finds the package
import torch
import torch.distributed.checkpoint.state_dict as dcp_state
from torch import nn

import pawl
import pawl.torch
from pawl.torch import _parts


def two_layers(width=3, first="a"):
    return nn.Sequential(collections.OrderedDict([(first, nn.Linear(4, width)), ("b", nn.Linear(width, 2))]))


def trained(model, optimizer):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


class Restoring(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.model = two_layers()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        trained(self.model, self.optimizer)
        with pawl.torch.Checkpointer(self.run_path, model=self.model, optimizer=self.optimizer) as ckpt:
            ckpt.steps = 7
            ckpt.save()
        self.weights = copy.deepcopy(self.model.state_dict())
        self.slots = copy.deepcopy(self.optimizer.state_dict())

    def restore(self, model, optimizer=None, **policies):
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            return ckpt.restore(**policies)

    def mismatch(self, model, optimizer=None, **policies):
        """The differences that stop a restore, which changes nothing."""
        before = copy.deepcopy(model.state_dict())
        with self.assertRaises(pawl.Mismatch) as caught:
            self.restore(model, optimizer, **policies)
        self.assert_same(model.state_dict(), before)
        return [item for item in caught.exception.report.items if item.severity.name == "ERROR"]

    def test_groups_in_another_order(self):
        def job(order):
            model = two_layers()
            groups = [
                {"params": list(model.children())[i].parameters(), "lr": 0.1 * i, "momentum": 0.5 * i} for i in order
            ]
            return {"model": model, "optimizer": torch.optim.SGD(groups)}

        path = self.directory / "groups"
        with pawl.torch.Checkpointer(path, **job([0, 1])) as ckpt:
            ckpt.save()
        again = job([1, 0])
        for group in again["optimizer"].param_groups:
            group["lr"] = group["momentum"] = 0.0
        with pawl.torch.Checkpointer(path, **again) as ckpt:
            ckpt.restore()
        found = [(group["lr"], group["momentum"]) for group in again["optimizer"].param_groups]
        self.assertEqual(found, [(0.1, 0.5), (0.0, 0.0)])

    def optimizers_of(self, *saved_and_restored):
        """Learning rates after a restore of one optimizer's checkpoint into another; groups are (parameters, lr)."""
        model = two_layers()
        named = dict(model.named_parameters())
        for i, groups in enumerate(saved_and_restored):
            optimizer = torch.optim.SGD(
                [{"params": [named[name] for name in names.split()], "lr": rate} for names, rate in groups]
            )
            with pawl.torch.Checkpointer(self.directory / "groups", model=model, optimizer=optimizer) as ckpt:
                ckpt.restore() if i else ckpt.save()
        return [group["lr"] for group in optimizer.param_groups]

    def test_groups_with_other_parameters(self):
        whole = [("a.weight a.bias", 1.0), ("b.weight b.bias", 2.0)]
        for restored, expected in (
            ([("a.bias a.weight", 8.0), ("b.weight b.bias", 9.0)], [1.0, 2.0]),  # the number is all that is known
            ([("b.weight a.bias", 8.0), ("b.bias a.weight", 9.0)], [2.0, 9.0]),  # and here it is another group's
            ([("b.weight", 8.0), ("a.weight a.bias b.bias", 9.0)], [2.0, 1.0]),
        ):
            with self.subTest(restored=restored):
                shutil.rmtree(self.directory / "groups", ignore_errors=True)
                self.assertEqual(self.optimizers_of(whole, restored), expected)

    def test_order_as_other_versions_save_it(self):
        groups = [("a.weight a.bias", 1.0), ("b.weight b.bias", 2.0)]
        again = [("a.weight a.bias", 8.0), ("b.weight b.bias", 9.0)]
        values = _parts.OptimizerPart.values
        for order, accepted in (
            (["exp_avg"], True),
            ({}, True),
            ({"groups": "a"}, False),
            ({"slots": [1]}, False),
            (7, False),
        ):
            saved = {"optimizer/slots": (_parts.Json(order), "other", False)}
            shutil.rmtree(self.directory / "groups", ignore_errors=True)
            with (
                self.subTest(order=order),
                contextlib.nullcontext() if accepted else self.assertRaisesRegex(pawl.Damaged, "optimizer/slots"),
                unittest.mock.patch.object(
                    _parts.OptimizerPart, "values", lambda part, saved=saved: values(part) | saved
                ),
            ):
                self.assertEqual(self.optimizers_of(groups, again), [1.0, 2.0])

    def test_groups_without_parameters(self):
        empty = [{"params": [], "lr": rate} for rate in (1.0, 2.0)]
        model = two_layers()
        for i in range(2):
            optimizer = torch.optim.SGD([*copy.deepcopy(empty), {"params": model.parameters(), "lr": 3.0}])
            with pawl.torch.Checkpointer(self.directory / "groups", model=model, optimizer=optimizer) as ckpt:
                ckpt.restore() if i else ckpt.save()
        self.assertEqual([group["lr"] for group in optimizer.param_groups], [1.0, 2.0, 3.0])

    # ---- PyTorch says nothing ----

    def test_a_dtype_that_is_cast_in_silence_R02(self):
        half = two_layers().half()
        half.load_state_dict({name: tensor * 1e30 for name, tensor in self.weights.items()})
        self.assertTrue(half.a.weight.isinf().any())
        items = self.mismatch(half, torch.optim.Adam(half.parameters()))
        self.assertEqual(items[0].difference.name, "DTYPE")
        self.assertEqual((items[0].name, items[0].checkpoint, items[0].state), ("model/a/bias", "[3] F32", "[3] F16"))
        self.assertIn("cast='allow'", items[0].next)
        self.restore(half, model_only=True, cast="allow")
        self.assertTrue(torch.equal(half.a.weight, self.weights["a.weight"].half()))

    def test_float64_and_float32_into_each_other_R02(self):
        for saved, asked in ((torch.float64, torch.float32), (torch.float32, torch.float64)):
            with self.subTest(saved=saved, asked=asked):
                model, other = two_layers().to(saved), two_layers().to(asked)
                self.assertEqual(str(other.load_state_dict(model.state_dict())), "<All keys matched successfully>")
                self.assertEqual(other.a.weight.dtype, asked)  # and nothing is said
                path = self.directory / str(saved)
                with pawl.torch.Checkpointer(path, model=model) as ckpt:
                    ckpt.save()
                bits = {torch.float64: "F64", torch.float32: "F32"}
                with pawl.torch.Checkpointer(path, model=other) as ckpt:
                    with self.assertRaises(pawl.Mismatch) as caught:
                        ckpt.restore()
                    ckpt.restore(cast="allow")
                found = {(item.name, item.checkpoint, item.state) for item in caught.exception.report.items}
                self.assertIn(("model/a/bias", f"[3] {bits[saved]}", f"[3] {bits[asked]}"), found)
                self.assertEqual(len(found), 4)

    def test_parameters_in_another_order_get_each_others_slots(self):
        """PyTorch counts parameters; pawl has slots by the names of their parameters."""
        swapped = nn.Sequential()
        swapped.a, swapped.b = nn.Linear(4, 4), nn.Linear(4, 4)
        parameters = [swapped.a.weight, swapped.b.weight]
        optimizer = torch.optim.Adam(parameters)
        for parameter, value in zip(parameters, (1.0, 2.0), strict=True):
            parameter.grad = torch.full_like(parameter, value)
        optimizer.step()
        other = torch.optim.Adam(parameters[::-1])
        other.load_state_dict(optimizer.state_dict())
        self.assertFalse(
            torch.equal(other.state[swapped.a.weight]["exp_avg"], optimizer.state[swapped.a.weight]["exp_avg"])
        )
        path = self.directory / "swapped"
        with pawl.torch.Checkpointer(path, model=swapped, optimizer=optimizer) as ckpt:
            ckpt.save()
        ours = torch.optim.Adam(parameters[::-1])
        with pawl.torch.Checkpointer(path, model=swapped, optimizer=ours) as ckpt:
            ckpt.restore()
        for parameter in parameters:
            self.assertTrue(torch.equal(ours.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"]))

    def test_strict_false_restores_nothing_in_silence_R03_R04(self):
        other = two_layers(first="c")
        result = other.load_state_dict(self.weights, strict=False)
        self.assertEqual(len(result.missing_keys), 2)
        items = self.mismatch(other, model_only=True)
        self.assertIn("RENAMED", {item.difference.name for item in self.report_items(other, model_only=True)})
        self.assertEqual({item.difference.name for item in items}, {"MISSING", "UNEXPECTED"})

    def test_strict_false_and_a_prefix_module_R03_R04(self):
        """PyTorch restores nothing; pawl saves without the prefix of a wrapper, and refuses one of a true module."""
        prefixed = {f"module.{name}": tensor for name, tensor in self.weights.items()}
        other = two_layers()
        before = copy.deepcopy(other.state_dict())
        result = other.load_state_dict(prefixed, strict=False)
        self.assertEqual((result.missing_keys, result.unexpected_keys), (list(self.weights), list(prefixed)))
        self.assert_same(other.state_dict(), before)  # and nothing is said
        wrapped, named = nn.DataParallel(self.model), nn.Module()
        named.module = self.model
        for number, saved in enumerate((wrapped, named)):
            with pawl.torch.Checkpointer(self.directory / f"saved-{number}", model=saved) as ckpt:
                ckpt.save()
        with pawl.torch.Checkpointer(self.directory / "saved-0", model=other) as ckpt:
            ckpt.restore()
        self.assert_same(other.state_dict(), self.weights)
        with pawl.torch.Checkpointer(self.directory / "saved-1", model=other) as ckpt:
            with self.assertRaises(pawl.Mismatch) as caught:
                ckpt.restore()
        names = {item.name for item in caught.exception.report.items if item.difference.name == "UNEXPECTED"}
        self.assertEqual(names, {"model/" + name.replace(".", "/") for name in prefixed})

    def report_items(self, model, **policies):
        with self.assertRaises(pawl.Mismatch) as caught:
            self.restore(model, **policies)
        return caught.exception.report.items

    def test_a_changed_learning_rate_R07(self):
        theirs = torch.optim.Adam(self.model.parameters(), lr=0.001)
        theirs.load_state_dict(self.slots)
        self.assertEqual(theirs.param_groups[0]["lr"], 0.1)  # and nothing is said
        with self.assertLogs("pawl", logging.WARNING) as logs:
            report = (lambda o: self.restore(self.of(o), o))(self.fresh(lr=0.001))
        self.assertIn('"optimizer/param_groups/0/lr" is 0.1 in the checkpoint and 0.001 in the state', logs.output[0])
        self.assertEqual(report.items[0].difference.name, "HYPERPARAMETER")
        mine = self.fresh(lr=0.001)
        self.restore(self.of(mine), mine, hyperparameter="caller")
        self.assertEqual(mine.param_groups[0]["lr"], 0.001)

    def fresh(self, **options):
        model = two_layers()
        optimizer = torch.optim.Adam(model.parameters(), **options)
        optimizer.model = model
        return optimizer

    def of(self, optimizer):
        return optimizer.model

    def parts(self, *left_out):
        """A job with all kinds of parts, but for those `left_out`, and without a save of its own."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        model = two_layers()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        parts = {
            "model": model,
            "optimizer": optimizer,
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1),
            "scaler": torch.amp.GradScaler("cpu"),
            "loader": StatefulDataLoader(list(range(8)), batch_size=2),
            "extra": {"notes": {"best": 0.5}},
        }
        return {name: parts[name] for name in parts if name not in left_out} | {"rng": "rng" not in left_out}

    def test_a_job_with_more_or_fewer_parts_R03_R04(self):
        """What a job has that was not saved would begin anew, and what it has no more would be lost: both are named."""
        entries = {name: name for name in ("scheduler", "scaler", "loader", "rng")} | {"extra": "extra/notes"}
        for name, entry in entries.items():
            for saved, now, difference in (((), (name,), "UNEXPECTED"), ((name,), (), "MISSING")):
                path = self.directory / f"{name}-{difference}"
                with self.subTest(name, difference=difference):
                    with pawl.torch.Checkpointer(path, **self.parts(*saved)) as ckpt:
                        ckpt.steps = 3
                        ckpt.save()
                    with pawl.torch.Checkpointer(path, **self.parts(*now)) as ckpt:
                        with self.assertRaises(pawl.Mismatch) as caught:
                            ckpt.restore()
                        self.assertEqual(ckpt.steps, 0)
                        items = [item for item in caught.exception.report.items if item.severity.name == "ERROR"]
                        self.assertEqual([(item.difference.name, item.name) for item in items], [(difference, entry)])
                        self.assertIn(f"{difference.lower()}='allow'", caught.exception.next)
                        ckpt.restore(**{difference.lower(): "allow"})
                        self.assertEqual(ckpt.steps, 3)

    # ---- PyTorch fails later, or without the cause ----

    def test_another_class_of_optimizer_R06(self):
        model = two_layers()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        trained(model, sgd)
        adam = torch.optim.Adam(model.parameters())
        with self.assertRaises(KeyError) as theirs:
            adam.load_state_dict(sgd.state_dict())
        self.assertEqual(str(theirs.exception), "'step'")
        items = self.mismatch(model, sgd)
        named = next(item for item in items if item.difference.name == "OPTIMIZER")
        self.assertEqual((named.checkpoint, named.state), ('"Adam"', '"SGD"'))
        self.assertIn("model_only=True", named.next)

    def test_another_shape_R01(self):
        other = two_layers(width=5)
        with self.assertRaisesRegex(RuntimeError, "size mismatch for a.weight: copying a param with shape"):
            other.load_state_dict(self.weights)
        items = self.mismatch(other, torch.optim.Adam(other.parameters()))
        named = {item.name: (item.checkpoint, item.state, item.dimension) for item in items}
        self.assertEqual(named["model/a/weight"], ("[3, 4] F32", "[5, 4] F32", 0))
        self.assertEqual(named["model/b/weight"], ("[2, 3] F32", "[2, 5] F32", 1))

    def test_slots_of_another_shape_R06(self):
        """PyTorch takes them, and fails at the next step."""
        wide = two_layers(width=5)
        theirs = torch.optim.Adam(wide.parameters())
        theirs.load_state_dict(self.slots)
        wide(torch.ones(2, 4)).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "The size of tensor a"):
            theirs.step()
        names = [item.name for item in self.mismatch(wide, torch.optim.Adam(wide.parameters()))]
        self.assertIn("optimizer/a/weight/exp_avg", names)

    def test_more_and_fewer_layers_R03_R04(self):
        more = two_layers()
        more.c = nn.Linear(2, 2)
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            more.load_state_dict(self.weights)
        names = {item.name: item.difference.name for item in self.mismatch(more, model_only=True)}
        self.assertEqual(names, {"model/c/bias": "MISSING", "model/c/weight": "MISSING"})
        report = self.restore(more, model_only=True, missing="allow")
        self.assertEqual(report.restored, 4)
        fewer = nn.Sequential()
        fewer.a = nn.Linear(4, 3)
        with self.assertRaisesRegex(RuntimeError, "Unexpected key"):
            fewer.load_state_dict(self.weights)
        names = {item.name: item.difference.name for item in self.mismatch(fewer, model_only=True)}
        self.assertEqual(names, {"model/b/bias": "UNEXPECTED", "model/b/weight": "UNEXPECTED"})

    def test_a_layer_that_was_renamed_R05(self):
        other = two_layers(first="encoder")
        with self.assertRaisesRegex(RuntimeError, "Missing key.*\n?.*Unexpected key"):
            other.load_state_dict(self.weights)
        with self.assertRaises(pawl.Mismatch) as caught:
            self.restore(other, torch.optim.Adam(other.parameters()))
        self.assertRegex(caught.exception.next, r"^\S.*renames=\{")
        renamed = [item for item in caught.exception.report.items if item.difference.name == "RENAMED"]
        rules = dict(remedy.rename for item in renamed for remedy in item.remedies)
        self.assertEqual(rules, {"model/a": "model/encoder"})  # slots follow their variables
        optimizer = torch.optim.Adam(other.parameters())
        report = self.restore(other, optimizer, renames=rules)
        slots = optimizer.state_dict()["state"]
        self.assertTrue(torch.equal(slots[0]["exp_avg"], self.slots["state"][0]["exp_avg"]))
        self.assertTrue(torch.equal(other.encoder.weight, self.weights["a.weight"]))
        self.assertEqual(report.step, 7)

    def test_a_prefix_of_a_wrapper_is_no_difference(self):
        wrapped = nn.DataParallel(two_layers())
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"module.a.weight"'):
            wrapped.load_state_dict(self.weights)
        self.assertEqual(self.restore(wrapped, model_only=True).items, ())
        self.assertTrue(torch.equal(wrapped.module.a.weight, self.weights["a.weight"]))

    def test_other_groups_of_parameters(self):
        model = two_layers()
        groups = [{"params": model.a.parameters()}, {"params": model.b.parameters(), "lr": 0.5}]
        optimizer = torch.optim.Adam(groups, lr=0.1)
        with self.assertRaisesRegex(ValueError, "different number of parameter groups"):
            optimizer.load_state_dict(self.slots)
        items = self.mismatch(model, optimizer)
        self.assertIn("optimizer/param_groups/1/lr", [item.name for item in items])

    def test_groups_of_another_size(self):
        fewer, more = two_layers(), two_layers()
        more.c = nn.Linear(2, 2)
        for model, parameters, expected in (
            (fewer, fewer.a.parameters(), ("SLOT", "optimizer/b/bias/exp_avg")),
            (more, more.parameters(), ("MISSING", "model/c/bias")),
        ):
            optimizer = torch.optim.Adam(parameters)
            with self.assertRaisesRegex(
                ValueError, "a parameter group that doesn't match the size of optimizer's group"
            ):
                optimizer.load_state_dict(self.slots)
            items = self.mismatch(model, optimizer)
            self.assertIn(expected, [(item.difference.name, item.name) for item in items])

    def test_optimizers_that_make_no_step_for_a_restore(self):
        """torch.distributed.checkpoint makes one, to have slots."""

        def of(kind):
            if kind is torch.optim.LBFGS:
                model = two_layers()
            else:
                model = nn.Embedding(4, 2, sparse=True)
            return model, kind(model.parameters(), lr=0.1)

        for kind, error, text in (
            (torch.optim.LBFGS, TypeError, "'NoneType' object is not callable"),
            (torch.optim.SparseAdam, RuntimeError, "SparseAdam does not support dense gradients"),
        ):
            with self.subTest(kind.__name__):
                with self.assertRaisesRegex(error, text):
                    dcp_state.get_optimizer_state_dict(*of(kind))
                model, optimizer = of(kind)
                given = torch.tensor([1, 2]) if kind is torch.optim.SparseAdam else torch.ones(2, 4)

                def closure(model=model, optimizer=optimizer, given=given):
                    optimizer.zero_grad()
                    loss = model(given).square().sum()
                    loss.backward()
                    return loss

                optimizer.step(closure)
                path = self.directory / kind.__name__
                with pawl.torch.Checkpointer(path, model=model, optimizer=optimizer) as ckpt:
                    ckpt.save()
                again, restored = of(kind)
                with pawl.torch.Checkpointer(path, model=again, optimizer=restored) as ckpt:
                    ckpt.restore()
                self.assertTrue(restored.state)
                self.assert_same(restored.state_dict()["state"], optimizer.state_dict()["state"])

    def test_a_parameter_that_no_model_has(self):
        optimizer = torch.optim.Adam([*self.model.parameters(), nn.Parameter(torch.ones(2))])
        optimizer.param_groups[0]["params"][4].grad = torch.ones(2)
        trained(self.model, optimizer)
        with self.assertRaises(KeyError) as theirs:
            dcp_state.get_optimizer_state_dict(self.model, optimizer)
        self.assertEqual(str(theirs.exception), "4")
        with pawl.torch.Checkpointer(self.directory / "more", model=self.model, optimizer=optimizer) as ckpt:
            with self.assertRaisesRegex(pawl.UsageError, r"parameter 4 of group 0, \[2\], belongs to no model"):
                ckpt.save()

    def test_no_checkpoint_yet_and_a_step_that_is_not_there_R09(self):
        with pawl.torch.Checkpointer(self.directory / "new", model=self.model) as ckpt:
            self.assertIsNone(ckpt.restore())
        with self.assertRaisesRegex(pawl.NotFound, "step 3") as caught, self.checkpointer() as ckpt:
            ckpt.restore(step=3)
        self.assertIn("step 7 is committed", caught.exception.safe)
        self.assertIn("pawl ls", caught.exception.next)

    def checkpointer(self, **options):
        return pawl.torch.Checkpointer(self.run_path, model=self.model, optimizer=self.optimizer, **options)

    def test_a_damaged_checkpoint_is_passed_over(self):
        """And what was made for it goes: the slots are those of the step before."""
        with self.checkpointer() as ckpt:
            ckpt.steps = 8
            ckpt.save()
        data = next((self.run_path / "step-00000008").glob("*.safetensors"))
        raw = bytearray(data.read_bytes())
        raw[-1] ^= 1
        data.write_bytes(raw)
        mine = self.fresh()
        with pawl.torch.Checkpointer(self.run_path, model=self.of(mine), optimizer=mine) as ckpt:
            with self.assertLogs("pawl", logging.WARNING):
                report = ckpt.restore()
            self.assertEqual((report.step, ckpt.steps, report.fallbacks), (7, 7, 1))
        self.assert_same(mine.state_dict()["state"], self.slots["state"])
        with self.assertRaises(pawl.Damaged), self.checkpointer() as ckpt:
            ckpt.restore(step=8)

    def test_what_was_restored_in_part_is_not_saved(self):
        with self.checkpointer() as ckpt:
            restore = ckpt.run.restore

            def interrupted(*arguments, **options):
                restore(*arguments, **options)
                raise KeyboardInterrupt

            ckpt.run.restore = interrupted
            with self.assertRaises(KeyboardInterrupt):
                ckpt.restore()
            ckpt.run.restore = restore
            ckpt.steps = 9
            with self.assertRaisesRegex(pawl.UsageError, "a restore ended in the middle"):
                ckpt.save()
            with self.assertRaises(pawl.NotFound):
                ckpt.restore(step=3)
            with self.assertRaises(pawl.UsageError):
                ckpt.save()
            ckpt.restore()
            ckpt.steps = 9
            ckpt.save()
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [7, 9])

    def test_what_was_made_for_a_damaged_step_is_forgotten(self):
        """The older step has no slots: those of the damaged one, partly read, are not the optimizer's."""
        path = self.directory / "early"
        model = two_layers()
        optimizer = torch.optim.Adam(model.parameters())
        extra = {"notes": {}}
        with pawl.torch.Checkpointer(path, model=model, optimizer=optimizer, extra=extra) as ckpt:
            ckpt.save()
            ckpt.fence()
            trained(model, optimizer)
            extra["notes"]["t"] = torch.ones(3)
            ckpt.steps = 1
            ckpt.save()
        data = next((path / "step-00000001").glob("*.safetensors"))
        raw = bytearray(data.read_bytes())
        raw[-1] ^= 1
        data.write_bytes(raw)
        model = two_layers()
        optimizer = torch.optim.Adam(model.parameters())
        extra["notes"].clear()
        with pawl.torch.Checkpointer(path, model=model, optimizer=optimizer, extra=extra) as ckpt:
            with self.assertLogs("pawl", logging.WARNING):
                self.assertEqual(ckpt.restore().step, 0)
        self.assertEqual((len(optimizer.state), list(extra["notes"])), (0, []))

    def test_values_that_another_has_written(self):
        """What is not this package's random state is named, and nothing is saved after."""
        wrong = (b"x", b"[]", b'{"value": 1}', b'{"value": {"python": 1}, "tensors": {}}')
        unknown = b'{"value": {"$": "tensor", "at": "t"}, "tensors": {"t": ["F99", [1], "x"]}}'
        for number, text in enumerate((*wrong, unknown)):
            with self.subTest(text=text):
                path = self.directory / f"run-{number}"
                with pawl.Run(path) as run:
                    state = pawl.State({"training/step": 1})
                    state.set("rng", text, per_rank=True, role="rng")
                    run.save(state, 1)
                with pawl.torch.Checkpointer(path) as ckpt:
                    with self.assertRaises(pawl.Damaged) as caught:
                        ckpt.restore()
                    self.assertEqual(caught.exception.entry, "rng")
                    with self.assertRaisesRegex(pawl.UsageError, "ended in the middle"):
                        ckpt.save()

    def test_a_slot_that_no_memory_holds(self):
        size = 1 << 60
        entry = pawl.Entry("optimizer/w/x", "tensor", "slot", "model/w", "x", False, False, "U8", (size,), size, 1)
        with self.assertRaises(pawl.OutOfMemory) as caught:
            pawl.torch._tensors.empty(entry)
        self.assertEqual(caught.exception.entry, "optimizer/w/x")


class SteppingAfter:
    """A file during whose writing an optimizer makes its step: after the tensor of so many bytes."""

    def __init__(self, size, path, optimizer):
        self.size, self.path, self.optimizer = size, path, optimizer

    def write(self, data):
        with self.path.open("ab") as file:
            file.write(data)
        if len(data) == self.size:
            self.optimizer.step()
        return len(data)

    def flush(self):
        pass


class Saving(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.model = nn.Linear(700, 700)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def checkpointer(self, **options):
        return pawl.torch.Checkpointer(self.run_path, model=self.model, optimizer=self.optimizer, **options)

    def failures_of_step_2(self, ckpt, begin):
        """What five calls raise that save it and wait for it, while files may have no more than some bytes."""
        raised = []
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            with self.assertLogs("pawl", logging.ERROR) as logs:
                ckpt.steps = 2
                for call in (begin, ckpt.fence, ckpt.wait, ckpt.fence, ckpt.wait):
                    try:
                        call()
                    except pawl.Error as error:
                        raised.append(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assertEqual([type(error) for error in raised], [pawl.NoSpace])  # said once
        self.assertEqual(raised[0].safe, "step 1 is committed and can be restored")
        for text in (str(raised[0]), logs.output[0]):
            self.assertIn("saving step 2: ", text)
        return raised[0]

    def limit(self, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def test_a_save_that_fails_in_the_background_S03(self):
        """torch.distributed.checkpoint returns, and a load fails; pawl says it at the next call."""
        with self.checkpointer() as ckpt:
            ckpt.steps = 1
            ckpt.save()
        slow = {**support.SLOWER, "bandwidth_bytes_per_s": 256 << 10}
        with self.checkpointer(**slow) as ckpt:

            def begin():
                ckpt.save()
                while not any(file.stat().st_size for file in self.run_path.glob("step-00000002/*.safetensors")):
                    time.sleep(0.01)
                self.limit(4096)

            error = self.failures_of_step_2(ckpt, begin)
        self.assertRegex(error.path, r"/step-00000002/[^/]*\.safetensors$")
        self.assertRegex(str(error), "writing bytes [0-9]+ to [0-9]+: cannot write")
        self.assertEqual(error.errno, errno.EFBIG)
        self.assertIn("EFBIG", error.system)
        with self.checkpointer() as ckpt:
            ckpt.steps = 2
            ckpt.save()
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1, 2])

    def test_a_save_that_cannot_succeed_fails_before_it_writes_S03(self):
        with self.checkpointer() as ckpt:
            ckpt.steps = 1
            ckpt.save()
            ckpt.wait()

            def begin():
                self.limit(1 << 20)
                ckpt.save()

            error = self.failures_of_step_2(ckpt, begin)
            self.assertEqual(error.path, str(self.run_path / "step-00000002"))
            self.assertIn("the checkpoint's largest file is larger than files may be", str(error))
            ckpt.save()
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1, 2])

    def test_a_save_while_one_is_being_written_waits_or_fails_S04(self):
        with self.checkpointer(**support.SLOWER, on_busy="error") as ckpt:
            ckpt.save()
            ckpt.steps = 1
            with self.assertRaisesRegex(pawl.Busy, "step 1.*step 0") as caught:
                ckpt.save()
            self.assertEqual(caught.exception.next, "call Run.wait() first, save less often, or choose on_busy='wait'")
        with self.checkpointer(**support.SLOWER) as ckpt:
            for ckpt.steps in (2, 3):
                ckpt.save()
            self.assertGreater(ckpt.wait().busy_wait_s, 0.0)

    def test_the_staging_budget_holds_S05(self):
        model = nn.Linear(2500, 2500)  # 25 MB and slots of as much, in a budget of 8 MiB
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        slow = {**support.SLOW, "bandwidth_bytes_per_s": 10 << 20}
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer, **slow) as ckpt:
            model(torch.ones(1, 2500)).sum().backward()
            optimizer.step()
            ckpt.save()
            optimizer.step()  # waits for writes
            stats = ckpt.wait()
        self.assertEqual(stats.budget_bytes, 8 << 20)
        self.assertGreater(stats.fence_wait_s, 0.1)
        self.assertGreater(stats.budget_wanted_bytes, stats.budget_bytes)

    def test_a_model_that_goes_while_it_is_saved_S02(self):
        weight = self.model.weight.detach().clone()
        ckpt = self.checkpointer(**support.SLOW)
        ckpt.save()
        self.model = self.optimizer = None
        gc.collect()
        run = ckpt.run
        del ckpt
        gc.collect()
        run.close()
        with pawl.open(self.run_path) as checkpoint:
            self.assertTrue(torch.equal(torch.from_dlpack(checkpoint["model/weight"]), weight))

    def test_checking_finds_what_nobody_fenced_S01(self):
        """A fused optimizer moves no version counter; with checking=True the tensor is named all the same.

        torch.save says nothing: what it writes before the step and after it is one file.
        """
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, fused=True)
        self.model(torch.ones(1, 700)).sum().backward()
        before = copy.deepcopy(self.model.state_dict())
        torch.save(self.model.state_dict(), SteppingAfter(before["weight"].nbytes, self.directory / "x.pt", optimizer))
        found = torch.load(self.directory / "x.pt")
        self.assertTrue(torch.equal(found["weight"], before["weight"]))
        self.assertFalse(torch.equal(found["bias"], before["bias"]))
        self.assertTrue(torch.equal(found["bias"], self.model.bias))
        with pawl.torch.Checkpointer(
            self.run_path, model=self.model, optimizer=optimizer, checking=True, **support.SLOWER
        ) as ckpt:
            pawl.torch._hook.leave_steps_alone(ckpt)
            self.model(torch.ones(1, 700)).sum().backward()
            ckpt.save()
            before = self.model.weight._version
            optimizer.step()
            self.assertEqual(self.model.weight._version, before)
            with self.assertRaises(pawl.Error) as caught, self.assertLogs("pawl", logging.ERROR) as logs:
                ckpt.wait()
            self.assertIn(caught.exception.entry, ("model/bias", "model/weight"))
            for text in (caught.exception.next, logs.output[0]):
                self.assertIn("call Run.fence() before the optimizer's step", text)

    def test_another_thread_that_trains_is_fenced_too(self):
        with self.checkpointer(**support.SLOW) as ckpt:
            self.model(torch.ones(1, 700)).sum().backward()
            weight = self.model.weight.detach().clone()
            ckpt.save()
            thread = threading.Thread(target=self.optimizer.step)
            thread.start()
            thread.join()
            ckpt.wait()
            self.assertFalse(torch.equal(self.model.weight, weight))
            ckpt.restore()
            self.assertTrue(torch.equal(self.model.weight, weight))

    def test_two_jobs_in_one_directory_S10(self):
        with self.checkpointer(), self.assertRaises(pawl.Busy) as caught:
            self.checkpointer(takeover_wait_s=-1.0)
        self.assertIn(f"pid {os.getpid()}", caught.exception.found)
        self.assertEqual(caught.exception.safe, "nothing was written or changed")


if __name__ == "__main__":
    support.main()
