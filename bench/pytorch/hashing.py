"""Weights and inputs from a hash of a tensor's name and of each value's place, as bench/hash_fill.hpp makes them."""

import math

import torch
from torch import Tensor, nn

PERIOD = 1 << 22
"""Places repeat after so many."""


def _signed(value: int) -> int:
    """The int64 that has the bits of a uint64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _name_hash(name: str) -> int:
    """FNV-1a of 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
    return h


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """A logical shift of int64."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _hashes(name: str, size: int) -> Tensor:
    """SplitMix64 at places 0 to size - 1, [size] int64."""
    z = torch.arange(1, size + 1, dtype=torch.int64) * _signed(0x9E3779B97F4A7C15) + _signed(_name_hash(name))
    z = (z ^ _shift_right(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift_right(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift_right(z, 31)


def fill_(name: str, to: Tensor, centre: float, width: float) -> None:
    """to[i] = centre + width * u with u in [-1, 1)."""
    flat = to.view(-1)
    u = _shift_right(_hashes(name, min(flat.numel(), PERIOD)), 40).double() * 2.0**-23 - 1
    block = (centre + width * u).float()
    for begin in range(0, flat.numel(), PERIOD):
        piece = flat[begin : begin + PERIOD]
        piece.copy_(block[: piece.numel()])


def values(name: str, *shape: int, width: float = 1.0) -> Tensor:
    """A float32 tensor around 0."""
    to = torch.empty(shape)
    fill_(name, to, 0.0, width)
    return to


def head(name: str, vocabulary: int, hidden: int) -> Tensor:
    """[vocabulary, hidden], as wide as a draft's own head."""
    return values(name, vocabulary, hidden, width=math.sqrt(3.0 / hidden))


def ids(name: str, below: int, *shape: int) -> Tensor:
    """int64 in [0, below)."""
    count = math.prod(shape)
    once = _shift_right(_hashes(name, min(count, PERIOD)), 33) % below
    return once.repeat(-(-count // PERIOD))[:count].view(shape)


@torch.no_grad()
def fill_module(module: nn.Module) -> None:
    """Every parameter: matrices by what they multiply, norms around 1, biases around 0."""
    for name, parameter in module.named_parameters():
        matrix = parameter.dim() >= 2
        width = math.sqrt(3.0 / parameter.shape[-1]) if matrix else 0.1
        fill_(name, parameter, 0.0 if matrix or name.endswith("bias") else 1.0, width)
