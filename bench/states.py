# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors to save: one tensor of n bytes, many small ones, and the shapes of real models
with the state of Adam, scaled to a size.

A list is a text file that bench_engine and the peers read alike: NAME DTYPE ROLE [DIMENSION...] a
line; ROLE is "-" for a variable, "+" for anything else, VARIABLE=SLOT for an optimizer's slot."""

import dataclasses
import math

BYTES = {"F32": 4, "BF16": 2, "U8": 1}


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple
    role: str = "-"

    @property
    def bytes(self):
        return BYTES[self.dtype] * math.prod(self.shape)

    def line(self):
        return " ".join([self.name, self.dtype, self.role, *map(str, self.shape)])


def bytes_of(tensors):
    return sum(tensor.bytes for tensor in tensors)


def write(tensors, path):
    path.write_text("".join(tensor.line() + "\n" for tensor in tensors), encoding="utf-8")


def read(path):
    tensors = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, dtype, role, *shape = line.split()
            tensors.append(Tensor(name, dtype, tuple(map(int, shape)), role))
    return tensors


def one(size):
    return [Tensor("tensor", "F32", (size // 4,))]


def many(count, size_each):
    return [Tensor(f"block{i % 1000:03}/tensor{i:07}", "F32", (size_each // 4,))
            for i in range(count)]


def with_adam(variables):
    """Moments in F32 and a step for each variable, as PyTorch keeps them."""
    tensors = list(variables)
    for slot in ("exp_avg", "exp_avg_sq"):
        tensors += [Tensor(f"adam/{slot}/{v.name}", "F32", v.shape, f"{v.name}={slot}")
                    for v in variables]
    return tensors + [Tensor(f"adam/step/{v.name}", "F32", (), "+") for v in variables]


def _multiple_of_8(number):
    return max(8, round(number / 8) * 8)


def _gpt2(scale):
    """The variables of GPT-2 (124 million parameters) with width and vocabulary times `scale`."""
    d, vocabulary = _multiple_of_8(768 * scale), _multiple_of_8(50257 * scale)
    shapes = {"wte": (vocabulary, d), "wpe": (1024, d)}
    for i in range(12):
        shapes |= {f"h{i:02}/{name}": shape for name, shape in {
            "ln_1/weight": (d,), "ln_1/bias": (d,),
            "attn/c_attn/weight": (d, 3 * d), "attn/c_attn/bias": (3 * d,),
            "attn/c_proj/weight": (d, d), "attn/c_proj/bias": (d,),
            "ln_2/weight": (d,), "ln_2/bias": (d,),
            "mlp/c_fc/weight": (d, 4 * d), "mlp/c_fc/bias": (4 * d,),
            "mlp/c_proj/weight": (4 * d, d), "mlp/c_proj/bias": (d,)}.items()}
    shapes |= {"ln_f/weight": (d,), "ln_f/bias": (d,)}
    return [Tensor(f"model/{name}", "F32", shape) for name, shape in shapes.items()]


def _llama(scale):
    """The variables of a Llama of 1.2 billion parameters, in BF16, scaled alike."""
    d, vocabulary, inner = (_multiple_of_8(n * scale) for n in (2048, 128256, 8192))
    keys = _multiple_of_8(d / 4)
    shapes = {"embed_tokens/weight": (vocabulary, d)}
    for i in range(16):
        shapes |= {f"layers{i:02}/{name}": shape for name, shape in {
            "input_layernorm/weight": (d,),
            "self_attn/q_proj/weight": (d, d), "self_attn/k_proj/weight": (keys, d),
            "self_attn/v_proj/weight": (keys, d), "self_attn/o_proj/weight": (d, d),
            "post_attention_layernorm/weight": (d,),
            "mlp/gate_proj/weight": (inner, d), "mlp/up_proj/weight": (inner, d),
            "mlp/down_proj/weight": (d, inner)}.items()}
    shapes["norm/weight"] = (d,)
    return [Tensor(f"model/{name}", "BF16", shape) for name, shape in shapes.items()]


def _scaled(variables_at, size):
    """The list whose bytes are nearest below `size`: bytes grow with the scale, by bisection."""
    low, high = 0.001, 16.0
    for _ in range(40):
        middle = (low + high) / 2
        if bytes_of(with_adam(variables_at(middle))) <= size:
            low = middle
        else:
            high = middle
    return with_adam(variables_at(low))


def gpt2(size):
    return _scaled(_gpt2, size)


def llama(size):
    return _scaled(_llama, size)
