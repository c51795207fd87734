#!/usr/bin/env python3
"""Hidden states that other trainers have stored, as a cache that train_draft --features trains from.

    python3 convert_features.py FOLDER --from specforge --target CHECKPOINT --config CHECKPOINT/config.json \\
        --layers 1,29,57 --out DIR

reads files of a conversation each, all of the folder and of those in it, in the order of their numbers:

specforge  data_N.ckpt of scripts/prepare_hidden_states.py of sgl-project/SpecForge (commits 0168a59 and f1424fb), run
           with --enable-aux-hidden-states: input_ids [n], loss_mask [n], hidden_state [1, n, hidden], which the head reads,
           and aux_hidden_state [1, n, layers * hidden]. --layers are those of its --aux-hidden-states-layers; without
           it, it took 1, L / 2 - 1 and L - 4 of L layers.
eagle      data_N.ckpt of eagle/ge_data of SafeAILab/EAGLE (commit bfeb532): input_ids [n], loss_mask [n], hidden_state [n, hidden].
           There are no other states: --draft dflash or dspark with the last layer alone, of a type compiled with
           num_target_layers = 1.
speculators  scripts/data_generation_offline.py of vllm-project/speculators, of either kind. 0.3 and 0.4 (tags v0.3.0 and
           v0.4.0.1) wrote data_N.pt: input_ids [n], loss_mask [n], hidden_states, a list of [n, hidden], of the layers in
           ascending order and of the last one; --layers are those of its --layer-ids without the last, 2, L / 2 and
           L - 3 unless told. 0.5 to 0.7 (tags v0.5.0 to v0.7.0.1) write hs_N.safetensors: token_ids [n], hidden_states
           [n, layers + 1, hidden]; --layers are launch_vllm.py's --target-layer-ids, with --layer-ids layers_executed.
           The loss mask of these is in the data that they were made of: --masks is its folder, which prepare_data.py
           wrote (read with the package pyarrow), or JSON lines with input_ids and loss_mask, line N of hs_N.
           Their last state is not normed: --norm is how the norm's weight is called. Of a target with attention
           residuals the last layer's sum is not what the norm reads, and neither trainer nor engine says what was
           stored: --last-state must say that it is the norm's input, or its output.

The last --heldout-files of them are held out. Windows are of whole conversations, packed (train_draft --packing apart
--sampling packed, which --features takes by itself), and as long as the longest, unless --length says more. Embedding
and head come from the safetensors files of CHECKPOINT: EMBEDDING and HEAD are how their names end. The cache carries a
fingerprint of these two: train_draft --target, which compares all parameters, does not take it for its own.

Needs PyTorch and NumPy, and dump_features.py and dump_module.py beside it.
"""

import argparse
import json
import os
import pickle
import re

import numpy
import torch

from dump_features import (Data, FeatureCache, Refused, add_cache_options, arguments, as_bytes, fingerprint, mix, read_config,
                           read_safetensors, run, taps_of, write_all)


NAMES = {"specforge": r".+\.(ckpt|pt)", "eagle": r".+\.(ckpt|pt)",
         "speculators": r"data_\d+\.pt|hs_\d+\.safetensors"}


def number_of(path):
    """The last number in a file's name."""
    numbers = re.findall(r"\d+", os.path.basename(path))
    return int(numbers[-1]) if numbers else -1


def files_of(folder, origin):
    """The stored files, in the order of the numbers in their names."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    found = sorted((number_of(path), path) for path in paths if re.fullmatch(NAMES[origin], os.path.basename(path)))
    if not found:
        raise Refused(folder, "no file of such a name", f"what {origin} has stored")
    endings = sorted({os.path.splitext(path)[1] for _, path in found})
    if len(endings) > 1:
        raise Refused(folder, f"files {' and '.join(endings)}", "those of one version")
    return [path for _, path in found]


def load(path):
    if path.endswith(".safetensors"):
        return {name: as_tensor(array) for name, array in read_safetensors(path)[0].items()}
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
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


class Masks:
    """Token ids and loss mask of each conversation, in the order that speculators numbers them."""

    def __init__(self, path):
        self.path, self.rows = path, self._arrow(path) if os.path.isdir(path) else self._lines(path)

    def of(self, path, ids):
        """The loss mask of a file with these token ids."""
        number = number_of(path)
        if number >= len(self.rows):
            raise Refused(self.path, f"{len(self.rows)} conversations", f"one of number {number}, as {path} has")
        wanted, mask = self.rows[number]
        if not torch.equal(wanted.long(), ids.long()):
            raise Refused(f"{path}: token_ids", "other tokens", f"those of number {number} in {self.path}")
        return mask

    @staticmethod
    def _lines(path):
        rows = []
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    one = json.loads(line)
                    rows.append((torch.tensor(one["input_ids"], dtype=torch.long), torch.tensor(one["loss_mask"])))
                except (ValueError, TypeError, KeyError, RuntimeError) as error:
                    raise Refused(f"{path}: line {number}", f"{type(error).__name__} {error}",
                                  "input_ids and loss_mask, lists of integers") from error
        return rows

    @staticmethod
    def _arrow(folder):
        """What the package datasets saves: state.json names files of Arrow's stream format."""
        try:
            import pyarrow
        except ImportError as error:
            raise Refused(folder, "no Python package pyarrow", "it, or JSON lines as --masks") from error
        try:
            with open(os.path.join(folder, "state.json"), encoding="utf-8") as file:
                names = [one["filename"] for one in json.load(file)["_data_files"]]
            rows = []
            for name in names:
                with pyarrow.memory_map(os.path.join(folder, name)) as file:
                    columns = pyarrow.ipc.open_stream(file).read_all().select(["input_ids", "loss_mask"])
                    for batch in columns.to_batches():
                        rows += zip(*([torch.tensor(row.values.to_numpy(zero_copy_only=False)) for row in column]
                                      for column in batch.columns))
            return rows
        except (ValueError, TypeError, KeyError, AttributeError, pyarrow.ArrowException) as error:
            raise Refused(folder, f"{type(error).__name__} {error}", "what datasets' save_to_disk wrote") from error


def tokens_of(path, vocabulary, masks):
    stored = load(path)
    name = "token_ids" if path.endswith(".safetensors") else "input_ids"
    ids = tensor_of(path, stored, name)
    if ids.is_floating_point():
        raise Refused(f"{path}: {name}", str(ids.dtype), "integers")
    if path.endswith(".safetensors"):
        stored["loss_mask"] = masks.of(path, ids)
    mask = tensor_of(path, stored, "loss_mask", [len(ids)]).numpy()
    ids = ids.numpy()
    if not len(ids):
        raise Refused(f"{path}: {name}", "no token", "one or more")
    wrong = numpy.flatnonzero((ids < 0) | (ids >= vocabulary))
    if len(wrong):
        raise Refused(f"{path}: {name}: {wrong[0]}", int(ids[wrong[0]]), f"0 to {vocabulary - 1}")
    if not numpy.isin(mask, (0, 1)).all():
        raise Refused(f"{path}: loss_mask", "other numbers", "0 or 1")
    return ids.astype(numpy.int64), mask.astype(numpy.uint8)


class Conversations:
    """Files as data, a document each."""

    def __init__(self, files, vocabulary, masks):
        parts = [tokens_of(path, vocabulary, masks) for path in files]
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
        self.layers = [layer for state, layer in taps if state != "post_norm"]

    def __call__(self, data, begin, end):
        n = end - begin
        for one in self.conversations:
            if one.data is data:
                last, of_layers = self.read(one.file_at[begin], n)
                of_layers = iter(of_layers)
                return last, [last if state == "post_norm" else next(of_layers) for state, _ in self.taps]
        return torch.zeros(n, self.hidden), [torch.zeros(n, self.hidden) for _ in self.taps]  # what fills a window

    def read(self, path, n):
        """What the head reads, and the states of self.layers: [n, hidden] each."""
        stored = load(path)
        last = self.states(path, stored, "hidden_state", [n, self.hidden])
        if not self.layers:
            return last, []
        aux = self.states(path, stored, "aux_hidden_state", [n, len(self.layers) * self.hidden])
        return last, torch.split(aux, self.hidden, 1)

    def states(self, path, stored, name, shape):
        states = tensor_of(path, stored, name, shape)
        if not states.is_floating_point():
            raise Refused(f"{path}: {name}", str(states.dtype), "floats")
        states = states.float()
        if not torch.isfinite(states).all():
            raise Refused(f"{path}: {name}", "numbers that are not finite", "finite ones")
        return states


class SpeculatorsStates(StoredStates):
    """The layers in ascending order and the last one, which norm() makes what the head reads."""

    def __init__(self, conversations, hidden, taps, norm):
        super().__init__(conversations, hidden, taps)
        self.norm = norm

    def read(self, path, n):
        stored = load(path)
        count = len(self.layers) + 1
        if isinstance(stored.get("hidden_states"), list):
            found = stored["hidden_states"]
            if len(found) != count:
                raise Refused(f"{path}: hidden_states", f"{len(found)} layers", f"{count}, the last layer with them")
            named = {f"hidden_states: {i}": one for i, one in enumerate(found)}
            slots = [self.states(path, named, name, [n, self.hidden]) for name in named]
        else:
            slots = self.states(path, stored, "hidden_states", [n, count, self.hidden]).unbind(1)
        ascending = sorted(self.layers)
        return self.norm(slots[-1]), [slots[ascending.index(layer)] for layer in self.layers]


def last_state(config, which, folder, name):
    """The function that makes the stored last state what the head reads."""
    text = config.get("text_config", config)
    if which is None and text.get("attn_res_block_size"):
        raise Refused("config: attn_res_block_size", text["attn_res_block_size"],
                      "--last-state too: behind such layers their sum is not what the norm reads")
    if which == "post_norm":
        return lambda state: state
    epsilon = text.get("rms_norm_eps")
    if not isinstance(epsilon, float):
        raise Refused("config: rms_norm_eps", epsilon, "a number, for the norm of the last state")
    weight = table(folder, name)
    if list(weight.shape) != [text.get("hidden_size")]:
        raise Refused(f"{folder}: {name}", list(weight.shape), [text.get("hidden_size")])
    return lambda state: state * torch.rsqrt(state.square().mean(1, keepdim=True) + epsilon) * weight


def check_layer_ids(files, taps, count):
    """Against what speculators 0.3 and 0.4 wrote of their run beside the files."""
    path = os.path.join(os.path.dirname(files[0]), "data_config.json")
    if not os.path.exists(path):
        return
    wanted = [*sorted(layer for state, layer in taps if state != "post_norm"), count - 1]
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)["hidden_states"]["layer_ids"]
    except (ValueError, TypeError, KeyError) as error:
        raise Refused(path, f"{type(error).__name__} {error}", "hidden_states.layer_ids") from error
    if sorted(set(found)) != wanted:
        raise Refused(f"{path}: hidden_states: layer_ids", found, f"{wanted}, of --layers and the last one")


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
    tensor = as_tensor(next(iter(found.values())))
    if not tensor.is_floating_point():
        raise Refused(f"{folder}: {next(iter(found))}", str(tensor.dtype), "floats or bfloat16")
    return tensor.float()


def as_tensor(array):
    """Of an array that read_safetensors has read."""
    if array.dtype == numpy.uint16:  # bfloat16
        return torch.from_numpy(array.astype(numpy.int32) << 16).view(torch.float32)
    return torch.from_numpy(array.copy())


def main():
    parser = argparse.ArgumentParser(description="Hidden states that other trainers have stored, as a cache.")
    parser.add_argument("folder", help="with the stored files")
    parser.add_argument("--from", dest="origin", required=True, choices=list(NAMES))
    add_cache_options(parser)
    parser.add_argument("--target", required=True, help="the target's checkpoint, for embedding and head")
    parser.add_argument("--embedding", default="embed_tokens.weight")
    parser.add_argument("--head", default="lm_head.weight")
    parser.add_argument("--norm", default="model.norm.weight", help="with --from speculators: the last norm's weight")
    parser.add_argument("--last-state", choices=["norm_input", "post_norm"],
                        help="with --from speculators: what is stored behind the last layer [norm_input]")
    parser.add_argument("--masks", metavar="DATA", help="with hs_N.safetensors: what has their loss masks")
    parser.add_argument("--length", type=int, default=0, help="tokens a window [those of the longest conversation]")
    parser.add_argument("--heldout-files", type=int, default=32, help="files that are held out")
    args = parser.parse_args(arguments())
    config = read_config(args.config)
    layers = [int(layer) for layer in args.layers.split(",")]
    count = config.get("text_config", config)["num_hidden_layers"]
    taps = taps_of(args.draft, layers, args.layer_ids, args.aux_stream, count)
    if args.origin == "eagle" and taps != [("post_norm", 0)]:
        raise Refused("--layers", args.layers, "the last layer alone, with --draft dflash or dspark: eagle stores no other")
    if ("embedding", 0) in taps:
        raise Refused("--layers", args.layers, "layers: the embedding's state is not stored")
    files = files_of(args.folder, args.origin)
    apart = files[0].endswith(".safetensors")
    if apart != (args.masks is not None):
        raise Refused("--masks", args.masks or "nothing", "it with hs_N.safetensors, which have no loss mask, and only then")
    norm = None
    if args.origin == "speculators":
        norm = last_state(config, args.last_state, args.target, args.norm)
        check_layer_ids(files, taps, count)
    elif args.last_state:
        raise Refused("--last-state", args.last_state, "it with --from speculators: others store what the head reads")
    tables = [table(args.target, args.embedding), table(args.target, args.head)]
    if not 1 <= args.heldout_files < len(files):
        raise Refused("--heldout-files", args.heldout_files, f"1 to {len(files) - 1}, of {len(files)} files")
    vocabulary, hidden = tables[1].shape
    masks = Masks(args.masks) if args.masks else None
    parts = [Conversations(some, vocabulary, masks) for some in (files[: -args.heldout_files], files[-args.heldout_files :])]
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
    write_all(cache, SpeculatorsStates(parts, hidden, taps, norm) if norm else StoredStates(parts, hidden, taps))


if __name__ == "__main__":
    run(main)
