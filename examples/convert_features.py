#!/usr/bin/env python3
"""Hidden states that other trainers have stored, as a cache that train_draft --features trains from.

    python3 convert_features.py FOLDER --from specforge --target CHECKPOINT --config CHECKPOINT/config.json \\
        --layers 1,29,57 --out DIR

reads files that torch.save wrote, a conversation each, all of the folder and of those in it, in the order of their
numbers (data_0.ckpt, data_1.ckpt, ...):

specforge  scripts/prepare_hidden_states.py of sgl-project/SpecForge (commits 0168a59 and f1424fb), run with
           --enable-aux-hidden-states: input_ids [n], loss_mask [n], hidden_state [1, n, hidden], which the head reads,
           and aux_hidden_state [1, n, layers * hidden]. --layers are those of its --aux-hidden-states-layers; without
           it, it took 1, L / 2 - 1 and L - 4 of L layers.
eagle      eagle/ge_data of SafeAILab/EAGLE (commit bfeb532): input_ids [n], loss_mask [n], hidden_state [n, hidden].
           There are no other states: --draft dflash or dspark with the last layer alone, of a type compiled with
           num_target_layers = 1.

The last --heldout-files of them are held out. Windows are of whole conversations, packed (train_draft --packing apart
--sampling packed, which --features takes by itself), and as long as the longest, unless --length says more. Embedding
and head come from the safetensors files of CHECKPOINT: EMBEDDING and HEAD are how their names end. The cache carries a
fingerprint of these two: train_draft --target, which compares all parameters, does not take it for its own.

Needs PyTorch and NumPy, and dump_features.py and dump_module.py beside it.
"""

import argparse
import os
import pickle
import re

import numpy
import torch

from dump_features import (Data, FeatureCache, Refused, add_cache_options, arguments, as_bytes, fingerprint, mix, read_config,
                           read_safetensors, run, taps_of, write_all)


def files_of(folder):
    """The stored files, in the order of the numbers in their names."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".ckpt", ".pt")):
                numbers = re.findall(r"\d+", name)
                found.append((int(numbers[-1]) if numbers else -1, os.path.join(place, name)))
    if not found:
        raise Refused(folder, "no .ckpt file", "what a trainer has stored")
    return [path for _, path in sorted(found)]


def load(path):
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        first = str(error).splitlines() or [type(error).__name__]
        raise Refused(path, first[0], "a file of tensors that torch.save wrote") from error
    if not isinstance(stored, dict):
        raise Refused(path, type(stored).__name__, "a dict of tensors")
    return stored


def tensor_of(path, stored, name, shape=None):
    """A tensor without the extents of 1 before the ones that are asked for. shape: what these must be."""
    found = stored.get(name)
    if not isinstance(found, torch.Tensor):
        raise Refused(f"{path}: {name}", "no such field" if found is None else type(found).__name__, "a tensor")
    plain, rank = found, 1 if shape is None else len(shape)
    while plain.dim() > rank and plain.shape[0] == 1:
        plain = plain[0]
    if plain.dim() != rank or (shape is not None and list(plain.shape) != list(shape)):
        raise Refused(f"{path}: {name}", list(found.shape), "one row" if shape is None else list(shape))
    return plain


def tokens_of(path, vocabulary):
    stored = load(path)
    ids = tensor_of(path, stored, "input_ids").numpy()
    mask = tensor_of(path, stored, "loss_mask", [len(ids)]).numpy()
    if not len(ids):
        raise Refused(f"{path}: input_ids", "no token", "one or more")
    wrong = numpy.flatnonzero((ids < 0) | (ids >= vocabulary))
    if len(wrong):
        raise Refused(f"{path}: input_ids: {wrong[0]}", int(ids[wrong[0]]), f"0 to {vocabulary - 1}")
    if not numpy.isin(mask, (0, 1)).all():
        raise Refused(f"{path}: loss_mask", "other numbers", "0 or 1")
    return ids.astype(numpy.int64), mask.astype(numpy.uint8)


class Conversations:
    """Files as data, a document each."""

    def __init__(self, files, vocabulary):
        parts = [tokens_of(path, vocabulary) for path in files]
        lengths = [len(ids) for ids, _ in parts]
        self.data = Data(numpy.concatenate([ids for ids, _ in parts]), numpy.concatenate([mask for _, mask in parts]),
                         lengths)
        self.longest = max(lengths)
        begins = numpy.cumsum([0] + lengths[:-1]).tolist()
        self.file_at = dict(zip(begins, files))


class StoredStates:
    """What the files have of each conversation."""

    def __init__(self, conversations, hidden, taps):
        self.conversations, self.hidden, self.taps = conversations, hidden, taps

    def __call__(self, data, begin, end):
        n = end - begin
        for one in self.conversations:
            if one.data is data:
                return self._read(one.file_at[begin], n)
        return torch.zeros(n, self.hidden), [torch.zeros(n, self.hidden) for _ in self.taps]  # what fills a window

    def _read(self, path, n):
        stored = load(path)
        of_layers = [state for state, _ in self.taps if state != "post_norm"]
        last = self._states(path, stored, "hidden_state", n, 1)
        aux = self._states(path, stored, "aux_hidden_state", n, len(of_layers)) if of_layers else None
        pieces = iter(torch.split(aux, self.hidden, 1) if of_layers else [])
        return last, [last if state == "post_norm" else next(pieces) for state, _ in self.taps]

    def _states(self, path, stored, name, n, count):
        states = tensor_of(path, stored, name, [n, count * self.hidden]).float()
        if not torch.isfinite(states).all():
            raise Refused(f"{path}: {name}", "numbers that are not finite", "finite ones")
        return states


def table(folder, ending):
    """The tensor of a checkpoint whose name ends so."""
    found = {}
    names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    for name in names:
        path = os.path.join(folder, name)
        for tensor, array in read_safetensors(path, ending)[0].items():
            found[tensor] = array
    if len(found) != 1:
        raise Refused(f"{folder}: a tensor whose name ends in {ending}", ", ".join(found) or "none", "one")
    array = next(iter(found.values()))
    if array.dtype == numpy.uint16:  # bfloat16
        return torch.from_numpy(array.astype(numpy.int32) << 16).view(torch.float32)
    if array.dtype.kind != "f":
        raise Refused(f"{folder}: {next(iter(found))}", str(array.dtype), "floats or bfloat16")
    return torch.from_numpy(array.astype(numpy.float32))


def main():
    parser = argparse.ArgumentParser(description="Hidden states that other trainers have stored, as a cache.")
    parser.add_argument("folder", help="with the stored files")
    parser.add_argument("--from", dest="origin", required=True, choices=["specforge", "eagle"])
    add_cache_options(parser)
    parser.add_argument("--target", required=True, help="the target's checkpoint, for embedding and head")
    parser.add_argument("--embedding", default="embed_tokens.weight")
    parser.add_argument("--head", default="lm_head.weight")
    parser.add_argument("--length", type=int, default=0, help="tokens a window [those of the longest conversation]")
    parser.add_argument("--heldout-files", type=int, default=32, help="files that are held out")
    args = parser.parse_args(arguments())
    config = read_config(args.config)
    layers = [int(layer) for layer in args.layers.split(",")]
    taps = taps_of(args.draft, layers, args.layer_ids, args.aux_stream,
                   config.get("text_config", config)["num_hidden_layers"])
    if args.origin == "eagle" and taps != [("post_norm", 0)]:
        raise Refused("--layers", args.layers, "the last layer alone, with --draft dflash or dspark: eagle stores no other")
    if ("embedding", 0) in taps:
        raise Refused("--layers", args.layers, "layers: the embedding's state is not stored")
    tables = [table(args.target, args.embedding), table(args.target, args.head)]
    files = files_of(args.folder)
    if not 1 <= args.heldout_files < len(files):
        raise Refused("--heldout-files", args.heldout_files, f"1 to {len(files) - 1}, of {len(files)} files")
    vocabulary, hidden = tables[1].shape
    parts = [Conversations(some, vocabulary) for some in (files[: -args.heldout_files], files[-args.heldout_files :])]
    longest = max(part.longest for part in parts)
    if args.length and args.length < longest:
        raise Refused("--length", args.length, f"{longest} or more: conversations are not cut")
    target = 0
    for tensor in tables:
        target = mix(target, fingerprint(as_bytes(tensor.reshape(-1))))
    cache = FeatureCache(args.out, config, taps, layers, parts[0].data, parts[1].data, *tables, target=target,
                         length=args.length or longest, layer_ids=args.layer_ids, aux_stream=args.aux_stream,
                         dtype=args.dtype, apart=True, packed=True, eval_windows=args.eval_windows,
                         shard_windows=args.shard_windows)
    write_all(cache, StoredStates(parts, hidden, taps))


if __name__ == "__main__":
    run(main)
