# SPDX-License-Identifier: Apache-2.0
"""The Checkpointer: what it saves and restores beside tensors, when, under which names, and what it refuses."""

import copy
import os
import random
import re
import signal

import support  # first: it finds the package
import torch
from torch import nn

import pawl
import pawl.torch
from jobs import Tied, WIDTH, Job, layers


class Jobs(support.InDirectory):
    def adam(self):
        model = layers()
        return Job(model, torch.optim.Adam(model.parameters()))

    def test_saves_when_it_is_time_and_keeps_the_best(self):
        job = self.adam()
        with pawl.torch.Checkpointer(
            self.run_path, **job.parts(), every=2, keep_last=1, best="accuracy", mode="max"
        ) as ckpt:
            for accuracy in (0.1, 0.9, 0.2, 0.3, 0.4, 0.5, 0.6):
                job.step()
                ckpt.step(metrics={"accuracy": accuracy})
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [2, 6])
        self.assertEqual(pawl.ls(self.run_path)[0].metrics, {"accuracy": 0.9})

    def test_all_random_state_is_restored(self):
        import numpy

        with pawl.torch.Checkpointer(self.run_path) as ckpt:
            ckpt.save()
            expected = random.random(), numpy.random.rand(), torch.rand(3).tolist()
            ckpt.wait()
            random.seed(9), numpy.random.seed(9), torch.manual_seed(9)
            ckpt.restore()
            self.assertEqual((random.random(), numpy.random.rand(), torch.rand(3).tolist()), expected)

    def test_the_loader_goes_on_where_it_was(self):
        from torchdata.stateful_dataloader import StatefulDataLoader

        def loader():
            generator = torch.Generator().manual_seed(5)
            return StatefulDataLoader(list(range(40)), batch_size=4, shuffle=True, generator=generator, num_workers=2)

        first = loader()
        with pawl.torch.Checkpointer(self.run_path, loader=first) as ckpt:
            seen = iter(first)
            for _ in range(3):
                next(seen)
            ckpt.save()
            expected = [batch.tolist() for batch in seen]
        second = loader()
        with pawl.torch.Checkpointer(self.run_path, loader=second) as ckpt:
            ckpt.restore()
            self.assertEqual([batch.tolist() for batch in second], expected)
        self.assertEqual(len(expected), 7)

    def test_extras(self):
        tensor, values = torch.arange(4), {"best": 1.5, "history": [1, 2], 3: {4}}
        generator = {"state": torch.Generator().manual_seed(3).get_state()}
        with pawl.torch.Checkpointer(
            self.run_path, extra={"tensor": tensor, "values": values, "generator": generator}
        ) as ckpt:
            ckpt.save()
            ckpt.fence()
            expected = copy.deepcopy((tensor, values, generator))
            tensor.zero_(), values.clear(), generator.clear()
            ckpt.wait()
            ckpt.restore()
            self.assert_same((tensor, values, generator), expected)

    def test_a_learning_rate_of_numpy_is_a_number(self):
        import numpy

        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=numpy.float64(0.25))
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            ckpt.save()
            ckpt.wait()
            self.assertEqual(ckpt.restore().items, ())
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint["optimizer/param_groups/0/lr"], 0.25)

    def test_names_with_dots_and_slashes_stay_apart(self):
        extra = {"a.b": {"t": torch.ones(1)}, "a": {"b": {"t": torch.zeros(1)}}, "a/b": {"t": torch.full((1,), 2.0)}}
        with pawl.torch.Checkpointer(self.run_path, extra=extra) as ckpt:
            ckpt.save()
            expected = copy.deepcopy(extra)
            for one in extra.values():
                one.clear()
            ckpt.wait()
            ckpt.restore()
        self.assert_same(extra, expected)

    def test_closing_waits_for_a_save_into_a_run_of_the_user(self):
        with pawl.Run(self.run_path, **support.SLOWER) as run:
            with pawl.torch.Checkpointer(run, extra={"t": torch.ones(1 << 18)}) as ckpt:
                ckpt.save()
            self.assertEqual([info.status for info in pawl.ls(self.run_path)], ["committed"])

    def test_extra_state_of_modules(self):
        class Named(nn.Linear):
            vocabulary = ()

            def get_extra_state(self):
                return {"vocabulary": self.vocabulary, "table": torch.arange(3)}

            def set_extra_state(self, state):
                self.vocabulary = state["vocabulary"]

        model = nn.Sequential(Named(2, 2))
        model[0].vocabulary = ("a", "b")
        with pawl.torch.Checkpointer(self.run_path, model=model) as ckpt:
            ckpt.save()
            ckpt.wait()
            model[0].vocabulary = ()
            ckpt.restore()
        self.assertEqual(model[0].vocabulary, ("a", "b"))

    def test_what_only_state_dict_has_is_refused(self):
        class Secret(nn.Linear):
            def _save_to_state_dict(self, destination, prefix, keep_vars):
                super()._save_to_state_dict(destination, prefix, keep_vars)
                destination[f"{prefix}secret"] = torch.tensor(5)

        class Harmless(nn.Linear):
            def _save_to_state_dict(self, destination, prefix, keep_vars):
                super()._save_to_state_dict(destination, prefix, keep_vars)

        with pawl.torch.Checkpointer(self.run_path, model=nn.Sequential(Harmless(2, 2))) as ckpt:
            ckpt.save()
        quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)), {nn.Linear})
        for model, key in ((nn.Sequential(nn.ReLU(), Secret(2, 2)), "secret"), (quantized, "scale")):
            with self.subTest(key), pawl.torch.Checkpointer(self.directory / key, model=model) as ckpt:
                with self.assertRaisesRegex(pawl.UsageError, f"model/[01] is a .*, which keeps '{key}'") as caught:
                    ckpt.save()
                self.assertIn("get_extra_state()", caught.exception.next)

    def test_tied_weights_are_saved_once_by_their_first_name(self):
        with pawl.torch.Checkpointer(self.run_path, model=Tied()) as ckpt:
            ckpt.save()
        with pawl.open(self.run_path) as checkpoint:
            names = [name for name in checkpoint if name.endswith("weight")]
        self.assertEqual(names, ["model/first/weight", "model/last/weight", "model/second/weight"])

    def test_names_are_those_of_the_model_without_its_wrappers(self):
        class Module(nn.Module):  # a submodule that really is called "module"
            def __init__(self):
                super().__init__()
                self.module = nn.Linear(2, 2)
                self.choices = nn.ModuleDict({"a/b": nn.Linear(2, 2), "100%": nn.Linear(2, 2)})

        model = torch.compile(Module(), backend="eager")
        with pawl.torch.Checkpointer(self.run_path, model=model, rng=False) as ckpt:
            ckpt.save()
        with pawl.open(self.run_path) as checkpoint:
            names = [name for name in checkpoint if name.endswith("weight")]
        self.assertEqual(
            sorted(names), ["model/choices/100%25/weight", "model/choices/a%2Fb/weight", "model/module/weight"]
        )

    def pair(self):
        """Two models, each with its optimizer, and a layer that both have."""
        shared = nn.Linear(4, 4)
        models = {
            "generator": nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), shared),
            "critic/a": nn.Sequential(shared, nn.Linear(4, 1)),
        }
        optimizers = {
            "generator": torch.optim.Adam([*models["generator"][0].parameters(), *models["generator"][1].parameters()]),
            "critic": torch.optim.SGD(models["critic/a"].parameters(), lr=0.1, momentum=0.9),
        }
        return models, optimizers

    def train_pair(self, models, optimizers):
        loss = models["critic/a"](models["generator"](torch.randn(8, 2))).pow(2).mean()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        both = [*models.values(), *optimizers.values()]
        return copy.deepcopy([one.state_dict() for one in both])

    def test_several_models_by_name(self):
        models, optimizers = self.pair()
        with pawl.torch.Checkpointer(self.run_path, model=models, optimizer=optimizers) as ckpt:
            self.train_pair(models, optimizers)
            ckpt.save()
            expected = [self.train_pair(models, optimizers) for _ in range(2)]
        with pawl.open(self.run_path) as checkpoint:
            names = [name for name in checkpoint if checkpoint.entry(name).kind == "tensor"]
        self.assertEqual(
            sorted(name for name in names if name.startswith("model/")),
            [
                *(f"model/critic%2Fa/{name}" for name in ("0/bias", "0/weight", "1/bias", "1/weight")),
                *(f"model/generator/{name}" for name in ("0/bias", "0/weight", "1/bias", "1/num_batches_tracked")),
                *(f"model/generator/{name}" for name in ("1/running_mean", "1/running_var", "1/weight")),
                *(f"model/generator/{name}" for name in ("2/bias", "2/weight")),
            ],
        )
        self.assertIn("optimizer/generator/generator/0/weight/exp_avg", names)
        self.assertIn("optimizer/critic/critic%2Fa/1/weight/momentum_buffer", names)
        torch.manual_seed(9)
        models, optimizers = self.pair()
        with pawl.torch.Checkpointer(self.run_path, model=models, optimizer=optimizers) as ckpt:
            self.assertEqual(ckpt.restore().items, ())
            self.assertIs(models["generator"][2].weight, models["critic/a"][0].weight)
            self.assert_same([self.train_pair(models, optimizers) for _ in range(2)], expected)

    def test_models_under_other_names(self):
        models = {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}
        with pawl.torch.Checkpointer(self.run_path, model=models) as ckpt:
            ckpt.save()
        with pawl.torch.Checkpointer(self.run_path, model={"a": models["a"], "c": models["b"]}) as ckpt:
            with self.assertRaises(pawl.Mismatch) as caught:
                ckpt.restore()
            self.assertIn("renames={'model/b': 'model/c'}", str(caught.exception))
            expected = copy.deepcopy(models["b"].state_dict())
            nn.init.zeros_(models["b"].weight)
            ckpt.restore(renames={"model/b": "model/c"})
            self.assert_same(models["b"].state_dict(), expected)

    def test_restoring_makes_no_step(self):
        job = self.adam()
        with pawl.torch.Checkpointer(self.run_path, **job.parts()) as ckpt:
            job.step()
            ckpt.save()
        steps = []
        other = self.adam()
        other.optimizer.register_step_post_hook(lambda *_: steps.append(1))
        with pawl.torch.Checkpointer(self.run_path, **other.parts()) as ckpt:
            ckpt.restore()
        self.assertEqual(steps, [])
        self.assert_same(other.optimizer.state_dict()["state"], job.optimizer.state_dict()["state"])

    def test_slots_keep_their_own_type(self):
        """torch casts float32 moments of a bfloat16 parameter to bfloat16, in silence."""
        model = nn.Linear(4, 4).to(torch.bfloat16)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        for slots in optimizer.state.values():
            slots["exp_avg"] = slots["exp_avg"].float() + 1e-4
        theirs = torch.optim.Adam(model.parameters())
        theirs.load_state_dict(optimizer.state_dict())
        self.assertEqual(theirs.state[model.weight]["exp_avg"].dtype, torch.bfloat16)
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer) as ckpt:
            ckpt.save()
        ours = torch.optim.Adam(model.parameters())
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=ours) as ckpt:
            ckpt.restore()
        self.assertTrue(torch.equal(ours.state[model.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"]))
        self.assertEqual(ours.state[model.weight]["exp_avg"].dtype, torch.float32)

    def test_float4(self):
        """Two elements to a byte: of a checkpoint the last dimension is twice PyTorch's."""
        raw = torch.randint(0, 256, (4, 6), dtype=torch.uint8)
        model = nn.Linear(2, 2)
        model.register_buffer("copied", raw.clone().view(torch.float4_e2m1fn_x2))
        model.register_buffer("in_place", raw.clone().view(torch.float4_e2m1fn_x2))
        parts = {"model": model, "by_reference": [model.in_place]}
        with pawl.torch.Checkpointer(self.run_path, **parts) as ckpt:
            ckpt.save()
        for buffer in (model.copied, model.in_place):
            buffer.view(torch.uint8).zero_()
        with pawl.torch.Checkpointer(self.run_path, **parts) as ckpt:
            ckpt.restore()
        for buffer in (model.copied, model.in_place):
            self.assertTrue(torch.equal(buffer.view(torch.uint8), raw))
        with pawl.open(self.run_path) as checkpoint:
            entry = checkpoint.entry("model/copied")
            self.assertEqual((entry.dtype, entry.shape), ("F4", (4, 12)))

    def test_lazily_conjugated_and_negated_tensors(self):
        """They are written to one by one: PyTorch's call for many refuses them."""
        model = nn.Linear(2, 2)
        model.register_buffer("conjugated", torch.randn(3, dtype=torch.complex64).conj())
        model.register_buffer("of_two_parts", torch.randn(3, dtype=torch.complex128).conj())
        model.register_buffer("negated", torch.randn(3, dtype=torch.complex64).conj().imag)
        model.turned = nn.Parameter(torch.randn(2, 3, dtype=torch.complex64).H)
        self.assertTrue(model.conjugated.is_conj() and model.negated.is_neg() and model.turned.is_conj())
        kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with pawl.torch.Checkpointer(self.run_path, model=model) as ckpt:
            ckpt.save()
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.zero_()
        with pawl.torch.Checkpointer(self.run_path, model=model) as ckpt:
            ckpt.restore()
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, kept[name]), name)

    def test_a_skipped_save_is_not_taken_for_the_final_one(self):
        model = nn.Linear(1000, 1000)
        slow = {"bandwidth_bytes_per_s": 1 << 20, "in_flight_bytes": 1 << 20, "on_busy": "skip"}
        with pawl.torch.Checkpointer(self.run_path, model=model, keep_last=9, **slow) as ckpt:
            ckpt.save()
            ckpt.steps = 1
            with self.assertLogs("pawl", "INFO") as logged:
                ckpt.save()
            self.assertIn("step 1 is skipped", logged.output[-1])
            ckpt._save_final(None)
        self.assertEqual([step.step for step in pawl.ls(self.run_path)], [0, 1])

    def test_nothing_is_changed_where_nothing_is_restored(self):
        job = self.adam()
        with pawl.torch.Checkpointer(self.run_path, **job.parts()) as ckpt:
            job.step()
            ckpt.save()
        other = self.adam()
        other.model[3] = nn.Linear(WIDTH, WIDTH + 1)
        other.optimizer = torch.optim.Adam(other.model.parameters())
        before = other.everything()
        with pawl.torch.Checkpointer(self.run_path, **other.parts()) as ckpt:
            with self.assertRaises(pawl.Mismatch):
                ckpt.restore()
            self.assertEqual(ckpt.steps, 0)
        self.assert_same(other.everything(), before)

    def test_a_thousand_saves_leak_nothing(self):
        model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Linear(64, 8))
        job = Job(model, torch.optim.Adam(model.parameters()))
        with pawl.torch.Checkpointer(self.run_path, **job.parts(), keep_last=1, every=1) as ckpt:
            for number in range(1000):
                model(torch.randn(16, 8)).pow(2).mean().backward()
                job.optimizer.step()
                ckpt.step()
                if number == 100:
                    ckpt.wait()
                    open_files, memory = len(os.listdir("/proc/self/fd")), _resident()
            ckpt.wait()
            self.assertEqual(len(os.listdir("/proc/self/fd")), open_files)
            self.assertLess(_resident() - memory, 8 << 20)


class WithAccelerate(support.InDirectory):
    def parts(self):
        import accelerate

        accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
        model = layers(nn.BatchNorm1d(WIDTH))
        optimizer = torch.optim.AdamW(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        return accelerator, *accelerator.prepare(model, optimizer, scheduler)

    def train(self, ckpt, steps, accelerator, model, optimizer, scheduler):
        while ckpt.steps < steps:
            for _ in range(2):
                with accelerator.accumulate(model):
                    accelerator.backward(model(torch.randn(8, 8)).float().pow(2).mean())
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
            ckpt.step()
        return copy.deepcopy(model.state_dict())

    def test_what_accelerate_wraps(self):
        """Its optimizer is none of torch's hooks for single optimizers; the global one waits all the same."""
        found = []
        for restored in (None, 2):
            accelerator, model, optimizer, scheduler = self.parts()
            with self.assertRaisesRegex(AttributeError, "_optimizer_step_pre_hooks"):
                optimizer.register_step_pre_hook(lambda *_: None)
            with pawl.torch.Checkpointer(
                self.run_path, model=model, optimizer=optimizer, scheduler=scheduler, every=2, **support.SLOW
            ) as ckpt:
                self.assertEqual(restored is None, ckpt.restore(step=restored) is None)
                found.append(self.train(ckpt, 4, accelerator, model, optimizer, scheduler))
        self.assert_same(found[1], found[0])


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Refused(support.InDirectory):
    def refused(self, *texts, **parts):
        with self.assertRaises(pawl.UsageError) as caught, pawl.torch.Checkpointer(self.run_path, **parts) as ckpt:
            ckpt.save()
        for text in texts:
            self.assertIn(text, str(caught.exception))

    def test_a_lazy_module(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3))
        self.refused("model/1/weight", "run one batch through the model first", model=model)

    def test_a_module_on_meta(self):
        self.refused("model/weight", "to_empty", model=nn.Linear(2, 2, device="meta"))

    def test_options_beside_an_open_run(self):
        with pawl.Run(self.run_path) as run, self.assertRaisesRegex(pawl.UsageError, "every, deadline_s: give"):
            pawl.torch.Checkpointer(run, every=3, deadline_s=1.0)

    def test_a_plain_loader(self):
        loader = torch.utils.data.DataLoader([1, 2])
        self.refused("torch.utils.data", "StatefulDataLoader", loader=loader)

    def test_an_optimizer_of_another_model(self):
        other = nn.Linear(2, 3)
        self.refused(
            "optimizer: parameter 0 of group 0, [3, 2], belongs to no model",
            model=nn.Linear(2, 2),
            optimizer=torch.optim.SGD(other.parameters()),
        )

    def test_wrong_types(self):
        self.refused("model/a is a dict, not", model={"a": {}})
        self.refused("no param_groups", model=nn.Linear(2, 2), optimizer=7)
        self.refused("extra['x'] is a int", extra={"x": 7})
        self.refused("mode='largest'", mode="largest")
        self.refused("extra.x.net is a torch.nn.modules.linear.Linear", extra={"x": {"net": nn.Linear(2, 2)}})

    def test_sparse_and_quantized_tensors(self):
        self.refused("extra/x", "sparse_coo", extra={"x": torch.eye(2).to_sparse()})
        self.refused("extra/x", "quantized", extra={"x": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)})
        self.refused("extra/x", "nested", extra={"x": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])})

    def test_expanded_tensors(self):
        model = nn.Linear(2, 2)
        model.register_buffer("seen", torch.ones(1).expand(4))
        self.refused("model/seen: its elements share memory", "contiguous", model=model)
        model = nn.Linear(2, 2)
        model.frozen = nn.Parameter(torch.ones(1).expand(4), requires_grad=False)
        self.refused("model/frozen: its elements share memory", model=model)


class Page(support.InDirectory):
    PRELUDE = """
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
torch.manual_seed(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
loader = StatefulDataLoader(torch.randn(1700, 4), batch_size=1)
def train_step(batch):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    scheduler.step()
"""

    def test_the_program_of_the_page(self):
        page = (support.SOURCE / "docs" / "python.md").read_text(encoding="utf-8").partition("## PyTorch")[2]
        program = self.PRELUDE + re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1).replace(
            "...  ", "train_step(batch)  #"
        ).replace("runs/a", str(self.run_path))
        self.program(program)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [500, 1000, 1500])


class Preempted(support.InDirectory):
    PROGRAM = """
import os, signal, sys, torch, support, pawl, pawl.torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with pawl.torch.Checkpointer(sys.argv[1], model=model, optimizer=optimizer, every=1000) as ckpt:
    while ckpt.steps < 100 and not ckpt.preempted:
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        if ckpt.steps == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        ckpt.step()
    print(ckpt.steps, ckpt.preempted)
"""

    def test_after_closing_a_signal_ends_the_process_again(self):
        done = self.program(self.PROGRAM + "os.kill(os.getpid(), signal.SIGTERM)\n", self.run_path, check=False)
        self.assertEqual(done.returncode, -signal.SIGTERM)

    def test_an_interrupted_save_is_fenced_all_the_same(self):
        """Whatever is raised while a save begins, the next step waits for it."""
        model = nn.Linear(2000, 1000)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        model(torch.ones(1, 2000)).sum().backward()
        with pawl.torch.Checkpointer(self.run_path, model=model, optimizer=optimizer, **support.SLOW) as ckpt:
            weight, save = model.weight.detach().clone(), ckpt.run.save

            def interrupted(*arguments, **options):
                save(*arguments, **options)
                raise KeyboardInterrupt

            ckpt.run.save = interrupted
            with self.assertRaises(KeyboardInterrupt):
                ckpt.save()
            optimizer.step()
            ckpt.wait()
            ckpt.restore()
            self.assertTrue(torch.equal(model.weight, weight))

    def test_a_signal_makes_a_final_save_S13(self):
        done = self.program(self.PROGRAM, self.run_path)
        self.assertEqual(done.stdout.split(), ["7", "True"])
        self.assertIn(f"signal {int(signal.SIGTERM)} came", done.stderr)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [7])


if __name__ == "__main__":
    support.main()
