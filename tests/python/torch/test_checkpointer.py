# SPDX-License-Identifier: Apache-2.0
"""Training that is saved while it goes on, and resumed: equal, bit for bit, to training without a save."""

import copy
import logging
import os
import random
import re
import signal
import warnings

import support  # first: it finds the package
import torch
import torch.nn.utils.prune
from torch import nn

import pawl
import pawl.torch

WIDTH = 640  # 1.6 MB of weights a layer: with an optimizer's slots more than the budget of a slow save
STEPS, SAVED_AT = 6, 3


def layers(*more):
    return nn.Sequential(
        nn.Linear(8, WIDTH), *more, nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
    )


class Counts(nn.Module):
    """Counts its calls, in place, and keeps a queue; both change in the forward pass."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("queue", torch.zeros(512, WIDTH))

    def forward(self, x):
        with torch.no_grad():
            self.queue[self.calls % 512] = x.mean(0)
            self.calls += 1
        return x + self.queue.mean()


class Job:
    """A training job: `step()` is one step of it."""

    def __init__(self, model, optimizer, **more):
        self.model, self.optimizer, self.more = model, optimizer, more
        self.scheduler, self.scaler = more.get("scheduler"), more.get("scaler")

    def loss(self):
        x = torch.randn(16, 8)
        return (self.model(x) - x[:, :2]).pow(2).mean()

    def step(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()

    def parts(self):
        return {"model": self.model, "optimizer": self.optimizer, **self.more}

    def everything(self):
        found = {"model": copy.deepcopy(self.model.state_dict()), "optimizer": self.optimizer.state_dict()["state"]}
        for name, part in self.more.items():
            found[name] = part["ema"].state_dict() if name == "extra" else part.state_dict()
        return copy.deepcopy(found)


class Closure(Job):
    """LBFGS calls the loss several times in a step."""

    def step(self):
        x = torch.randn(16, 8)

        def closure():
            self.optimizer.zero_grad()
            loss = (self.model(x) - x[:, :2]).pow(2).mean()
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Averaged(Job):
    """An average of the weights, updated before or after the optimizer's step."""

    before = True

    def step(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        if self.before:
            self.more["extra"]["ema"].update_parameters(self.model)
        self.optimizer.step()
        if not self.before:
            self.more["extra"]["ema"].update_parameters(self.model)


class AveragedAfter(Averaged):
    before = False


class Accumulated(Job):
    """Gradients of three batches, clipped."""

    def step(self):
        self.optimizer.zero_grad()
        for _ in range(3):
            (self.loss() / 3).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()


class Scaled(Job):
    """Mixed precision; the second step overflows and is skipped."""

    count = 0

    def step(self):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss()
        self.scaler.scale(loss * (float("inf") if self.count == 1 else 1.0)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.count += 1


class InBackward(Job):
    """Each parameter has its own optimizer, which steps as soon as the gradient is there."""

    def __init__(self, model):
        self.each = {name: torch.optim.Adam([parameter], foreach=False) for name, parameter in model.named_parameters()}
        for (_, parameter), optimizer in zip(model.named_parameters(), self.each.values(), strict=True):
            parameter.register_post_accumulate_grad_hook(self.stepper(optimizer))
        super().__init__(model, {name.replace(".", "_"): optimizer for name, optimizer in self.each.items()})

    def stepper(self, optimizer):
        def step(_parameter):
            optimizer.step()
            optimizer.zero_grad()

        return step

    def step(self):
        self.loss().backward()

    def everything(self):
        slots = {name: optimizer.state_dict()["state"] for name, optimizer in self.each.items()}
        return copy.deepcopy({"model": self.model.state_dict(), "optimizer": slots})


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.third, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.third.weight = self.second.weight

    def forward(self, x):
        return self.last(self.third(self.second(self.first(x)).relu()))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.end = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 2)
        self.attention = nn.MultiheadAttention(WIDTH, 4, dropout=0.1, batch_first=True)

    def forward(self, x):
        x = self.begin(x)[:, None]
        return self.end(self.attention(x, x, x)[0][:, 0])


def pruned():
    model = layers()
    nn.utils.prune.l1_unstructured(model[1], "weight", amount=0.3)
    return model


def frozen():
    model = layers()
    model[1].requires_grad_(False)
    return Job(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]))


def averaged(kind, **options):
    model = layers(nn.BatchNorm1d(WIDTH))
    ema = torch.optim.swa_utils.AveragedModel(model, use_buffers=True, **options)
    return kind(model, torch.optim.AdamW(model.parameters()), extra={"ema": ema})


def with_optimizer(kind, *more, **options):
    def make():
        model = layers(*(one() for one in more))
        return Job(model, kind(model.parameters(), **options))

    return make


def with_model(make_model, **options):
    def make():
        model = make_model()
        return Job(model, torch.optim.AdamW(model.parameters(), **options))

    return make


def scheduled():
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
    then = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5])
    return Job(model, optimizer, scheduler=torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, then], [4]))


def muon():
    model = nn.Sequential(
        nn.Linear(8, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 2, False)
    )
    return Job(model, torch.optim.Muon(model.parameters()))


def lbfgs():
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
    return Closure(model, torch.optim.LBFGS(model.parameters(), max_iter=5, history_size=4))


def compiled():
    model = torch.compile(layers(nn.BatchNorm1d(WIDTH)), backend="eager")
    return Job(model, torch.optim.AdamW(model.parameters()))


def two_groups():
    model = layers()
    groups = [{"params": model[0].parameters(), "lr": 1e-2}, {"params": [p for m in model[1:] for p in m.parameters()]}]
    return Job(model, torch.optim.Adam(groups, lr=torch.tensor(1e-3), amsgrad=True))


def norm(which):
    return lambda: nn.Sequential(nn.Linear(8, WIDTH), which(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, 2))


optim = torch.optim
CASES = {
    "batch norm": with_optimizer(optim.AdamW, lambda: nn.BatchNorm1d(WIDTH)),
    "buffers changed in forward": with_optimizer(optim.AdamW, Counts),
    "spectral norm": with_model(norm(nn.utils.spectral_norm)),
    "spectral norm, parametrized": with_model(norm(nn.utils.parametrizations.spectral_norm)),
    "weight norm": with_model(norm(nn.utils.parametrizations.weight_norm)),
    "average updated before the step": lambda: averaged(Averaged),
    "average updated after the step": lambda: averaged(
        AveragedAfter, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    ),
    "dropout": with_optimizer(optim.AdamW, lambda: nn.Dropout(0.3)),
    "attention": with_model(Attention),
    "tied weights": with_model(Tied),
    "pruned": with_model(pruned),
    "frozen parameters": frozen,
    "accumulated and clipped": lambda: (lambda m: Accumulated(m, optim.AdamW(m.parameters())))(layers()),
    "gradient scaler": lambda: (
        lambda m: Scaled(m, optim.AdamW(m.parameters()), scaler=torch.amp.GradScaler("cpu", growth_interval=2))
    )(layers()),
    "optimizer in backward": lambda: InBackward(layers()),
    "torch.compile": compiled,
    "schedulers": scheduled,
    "two groups, lr a tensor": two_groups,
    "AdamW for-loop": with_optimizer(optim.AdamW, foreach=False),
    "AdamW foreach": with_optimizer(optim.AdamW, foreach=True),
    "AdamW fused": with_optimizer(optim.AdamW, fused=True),
    "Adam amsgrad": with_optimizer(optim.Adam, amsgrad=True),
    "SGD": with_optimizer(optim.SGD, lr=0.1),
    "SGD momentum": with_optimizer(optim.SGD, lr=0.1, momentum=0.9),
    "Adagrad": with_optimizer(optim.Adagrad),
    "Adadelta": with_optimizer(optim.Adadelta),
    "Adamax": with_optimizer(optim.Adamax),
    "RMSprop": with_optimizer(optim.RMSprop, momentum=0.9, centered=True),
    "Adafactor": with_optimizer(optim.Adafactor),
    "ASGD": with_optimizer(optim.ASGD),
    "Rprop": with_optimizer(optim.Rprop),
    "NAdam": with_optimizer(optim.NAdam),
    "RAdam": with_optimizer(optim.RAdam),
    "Muon": muon,
    "LBFGS": lbfgs,
}


def train(job, checkpointer=None, begin=0, save_at=None):
    for step in range(begin, STEPS):
        job.step()
        if checkpointer is not None:
            checkpointer.step()
            if step + 1 == save_at:
                checkpointer.save()
    return job.everything()


def checkpointer(path, job, **options):
    return pawl.torch.Checkpointer(path, **job.parts(), **{**support.SLOW, **options})


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
        with checkpointer(self.run_path, job, bandwidth_bytes_per_s=4 << 20) as ckpt:
            pawl.torch._hook.leave_steps_alone(ckpt)
            train(job, ckpt, save_at=SAVED_AT)
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
