# SPDX-License-Identifier: Apache-2.0
"""Training of every kind: small jobs that the tests save and resume."""

import copy

import support  # first: it finds the package
import torch
import torch.nn.utils.prune
from torch import nn

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


class LooksTwice(Job):
    """A forward pass in train mode, without gradients, between the save and the step."""

    def step(self):
        with torch.no_grad():
            self.loss()
        super().step()


class Words(Job):
    """Gradients of an embedding that are sparse."""

    def loss(self):
        return self.model(torch.randint(0, 2000, (64,))).pow(2).mean()


class OnPlateau(Job):
    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step(loss)


class Warm:
    """A schedule with state of its own, for LambdaLR."""

    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return 1 / (1 + step) + self.calls / 100


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


class OneBase(nn.Module):
    """A parameter and a buffer in one piece of memory, whose version each of them advances."""

    def __init__(self):
        super().__init__()
        base = torch.ones(2, WIDTH)
        self.scale = nn.Parameter(base[0])
        self.register_buffer("seen", base[1])

    def forward(self, x):
        with torch.no_grad():
            self.seen.add_(x.mean(0))
        return x * self.scale


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


def compiled(**options):
    def make():
        model = torch.compile(layers(nn.BatchNorm1d(WIDTH)), **options)
        return Job(model, torch.optim.AdamW(model.parameters()))

    return make


def two_groups():
    model = layers()
    groups = [{"params": model[0].parameters(), "lr": 1e-2}, {"params": [p for m in model[1:] for p in m.parameters()]}]
    return Job(model, torch.optim.Adam(groups, lr=torch.tensor(1e-3), amsgrad=True))


def of(kind, make_model, make_optimizer, make_scheduler=None):
    def make():
        model = make_model()
        optimizer = make_optimizer(model.parameters())
        return kind(model, optimizer, **({"scheduler": make_scheduler(optimizer)} if make_scheduler else {}))

    return make


def compiled_step():
    model = layers()
    job = Job(model, torch.optim.Adam(model.parameters(), capturable=False, foreach=True))
    job.optimizer.step = torch.compile(job.optimizer.step, backend="eager")
    return job


def norm(which):
    return lambda: nn.Sequential(nn.Linear(8, WIDTH), which(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, 2))


optim = torch.optim
CASES = {
    "batch norm": with_optimizer(optim.AdamW, lambda: nn.BatchNorm1d(WIDTH)),
    "buffers changed in forward": with_optimizer(optim.AdamW, Counts),
    "views of one base": with_optimizer(optim.AdamW, OneBase),
    "spectral norm": with_model(norm(nn.utils.spectral_norm)),
    "spectral norm, parametrized": with_model(norm(nn.utils.parametrizations.spectral_norm)),
    "weight norm": with_model(norm(nn.utils.parametrizations.weight_norm)),
    "weight norm, the older one": with_model(norm(nn.utils.weight_norm)),
    "batch norm looked at once more": of(LooksTwice, lambda: layers(nn.BatchNorm1d(WIDTH)), optim.AdamW),
    "sparse gradients": of(Words, lambda: nn.Embedding(2000, WIDTH, sparse=True), optim.SparseAdam),
    "on a plateau": of(
        OnPlateau, layers, optim.Adam, lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5)
    ),
    "a schedule with state": of(Job, layers, optim.Adam, lambda o: optim.lr_scheduler.LambdaLR(o, Warm())),
    "a step that is compiled": compiled_step,
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
    "torch.compile": compiled(backend="eager"),
    # Buffers are changed by copies at the end of the graph, as inductor has it, without a compiler.
    "torch.compile, aot_eager": compiled(backend="aot_eager"),
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
