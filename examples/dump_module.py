#!/usr/bin/env python3
"""Writes what a PyTorch module computes as one safetensors file, to compare another implementation with.

    from dump_module import dump

    dump("mlp.safetensors", module, x, mask=mask)

runs module(x, mask=mask) and its backward pass. In the file are, each in the type that it has in PyTorch:

    input.0, input.mask         what the module was called with, by place or name
    output.0                    what it returned
    d_output.0                  numbers drawn from `seed`, one for each of an output that has a gradient
    param.NAME, buffer.NAME     the module's parameters and buffers, as they were before the call
    grad.input.0                gradients of the sum of output * d_output over all outputs,
    grad.param.NAME             0 where an input or a parameter does not matter
    sub.NAME.input.0, .output.0, .grad.output.0    the same of the submodules that submodules=[NAME, ...] names; of one
                                that is called again, sub.NAME#1.input.0 and so on

Tensors within lists, tuples and dicts are numbered or named behind a dot: output.0.hidden. A module with dropout has
other numbers each time: call module.eval() before. backward=False leaves the gradients out.

From the shell, with a function that returns the module and a tuple of inputs (or these and a dict of named ones):

    python3 dump_module.py model.py:make mlp.safetensors --submodules gate,up --seed 3

Needs PyTorch and nothing else.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import struct
import sys

import torch

_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}


def save(path, tensors, metadata, kinds=None):
    """Write tensors by name; `path` is as it was if that fails. metadata: strings by name. kinds: by name, what those are
    called whose bytes are numbers that PyTorch may not know."""
    kinds = kinds or {}
    header, offset, kept = {"__metadata__": metadata}, 0, []
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{name}: found {tensor.dtype}, wanted one of {', '.join(map(str, _DTYPES))}")
        plain = tensor.detach().cpu().contiguous()
        size = plain.numel() * plain.element_size()
        kind = kinds.get(name, _DTYPES[plain.dtype])
        header[name] = {"dtype": kind, "shape": list(plain.shape), "data_offsets": [offset, offset + size]}
        kept.append((plain, size))
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    beside = f"{path}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for plain, size in kept:
                if size:
                    file.write(ctypes.string_at(plain.data_ptr(), size))
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def leaves(name, value):
    """(name, tensor) of each tensor within a value."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(f"{name}.{key}", part)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from leaves(f"{name}.{i}", part)


def numbered(prefix, value):
    """What a module returned: one tensor is PREFIX.0, of several each has its number or name."""
    return leaves(prefix, value if isinstance(value, (list, tuple, dict)) else (value,))


def mapped(value, change):
    """A value with its tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(part, change) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, change) for part in value)
    return value


class _Submodules:
    """Hooks that keep what named submodules are called with and return."""

    def __init__(self, module, names):
        by_name = dict(module.named_modules())
        for name in names:
            if name not in by_name:
                raise KeyError(f"submodules: found {name!r}, wanted one of {', '.join(filter(None, by_name))}")
        self.tensors, self.outputs, self.calls = {}, {}, {}
        self.hooks = [by_name[name].register_forward_hook(self._hook(name)) for name in names]

    def _hook(self, name):
        def keep(_, inputs, output):
            call = self.calls.get(name, 0)
            self.calls[name] = call + 1
            at = f"sub.{name}" if call == 0 else f"sub.{name}#{call}"
            for tensor_name, tensor in numbered(f"{at}.input", inputs):
                self.tensors[tensor_name] = tensor.detach().clone()
            for tensor_name, tensor in numbered(f"{at}.output", output):
                self.tensors[tensor_name] = tensor.detach().clone()
                if tensor.requires_grad:
                    self.outputs[tensor_name.replace(at, f"{at}.grad", 1)] = tensor

        return keep

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def _gradients(outputs, wanted, seed):
    """The outputs' own gradients, drawn, and those of what is wanted, by name."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, tensor in outputs.items():
        if tensor.requires_grad:
            numbers = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            drawn["d_" + name] = numbers.to(device=tensor.device, dtype=tensor.dtype)
    if not drawn or not wanted:
        return drawn
    roots = [outputs[name[2:]] for name in drawn]
    found = torch.autograd.grad(roots, list(wanted.values()), list(drawn.values()), allow_unused=True)
    for (name, tensor), gradient in zip(wanted.items(), found):
        drawn[name] = torch.zeros_like(tensor) if gradient is None else gradient
    return drawn


def dump(path, module, *inputs, submodules=(), seed=0, backward=True, **keyword_inputs):
    """Run module(*inputs, **keyword_inputs), write all that the file's head lists to `path`, and return the output."""
    tensors = {f"param.{name}": p.detach().clone() for name, p in module.named_parameters()}
    tensors.update({f"buffer.{name}": b.detach().clone() for name, b in module.named_buffers()})

    def leaf(tensor):
        own = tensor.detach().clone()
        return own.requires_grad_(True) if own.is_floating_point() and backward else own

    inputs, keyword_inputs = mapped(inputs, leaf), mapped(keyword_inputs, leaf)
    called_with = dict(leaves("input", inputs))
    called_with.update(leaves("input", keyword_inputs))
    tensors.update({name: tensor.detach().clone() for name, tensor in called_with.items()})

    hooks = _Submodules(module, submodules)
    try:
        with torch.set_grad_enabled(backward):
            # Clones, so that a module that writes into its inputs does not write into leaves.
            output = module(*mapped(inputs, torch.clone), **mapped(keyword_inputs, torch.clone))
    finally:
        hooks.remove()
    outputs = dict(numbered("output", output))
    tensors.update({name: tensor.detach().clone() for name, tensor in outputs.items()})
    tensors.update(hooks.tensors)
    if backward:
        wanted = {f"grad.{name}": tensor for name, tensor in called_with.items() if tensor.requires_grad}
        wanted.update({f"grad.param.{name}": p for name, p in module.named_parameters() if p.requires_grad})
        wanted.update(hooks.outputs)
        tensors.update(_gradients(outputs, wanted, seed))
    save(path, tensors, {"module": type(module).__name__, "torch": torch.__version__, "seed": str(seed)})
    return output


def main():
    parser = argparse.ArgumentParser(description="Writes what a PyTorch module computes as one safetensors file.")
    parser.add_argument("make", metavar="FILE.py:FUNCTION", help="returns module, inputs[, named inputs]")
    parser.add_argument("out", help="the safetensors file")
    parser.add_argument("--submodules", default="", help="names with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="of the outputs' gradients")
    parser.add_argument("--no-backward", action="store_true", help="outputs only")
    args = parser.parse_args()
    file, colon, function = args.make.rpartition(":")
    if not colon:
        parser.error(f"found {args.make}, wanted FILE.py:FUNCTION")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("module_to_dump", file)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    module, inputs, *named = getattr(source, function)()
    submodules = [name for name in args.submodules.split(",") if name]
    dump(args.out, module, *inputs, submodules=submodules, seed=args.seed, backward=not args.no_backward,
         **(named[0] if named else {}))


if __name__ == "__main__":
    main()
