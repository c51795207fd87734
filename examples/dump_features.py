#!/usr/bin/env python3
"""Runs a PyTorch model over data and writes what it says as a cache that train_draft --features trains from.

    python3 dump_features.py model.py:make --config config.json --train DATA --heldout DATA --out DIR \\
        --layers 1,2,4 --layer-name 'model.layers.{}' --norm model.norm --head lm_head --embedding model.embed_tokens

make() returns the model, which is called with token ids [1, n]. What the named modules return is kept: of a layer the
sum after its MLP, of --norm what the head reads. The weights of --head and --embedding, [vocabulary, hidden], go in,
too. --config is the target's config.json; train_draft must be compiled for such a target. DATA is a safetensors file
or a folder of them, as prepare_data.py writes, or a .npy list of token ids.

--layers and --layer-ids are those of train_draft, whose --draft says what a layer is to it: of dflash and dspark, -1 is
the embedding and the last layer the norm's state. Windows are the data's own, one behind the other; with --packing
apart each document runs on its own, with --sampling packed whole documents share a window.

The cache is of the dumped model: train_draft --target, which compares parameters, does not take it for its own. The
folder must be new or empty: a dump that was ended begins anew. features.json comes last. Without features.json it is
no cache.

Needs PyTorch and NumPy, and dump_module.py beside it.
"""

import argparse
import bisect
import importlib.util
import json
import os
import sys

import numpy
import torch

from dump_module import save

MASK = (1 << 64) - 1
BLOCK = 1 << 20  # bytes that are hashed on their own
SHARD_BYTES = 1 << 26
STATES = {"float": ("F32", torch.float32), "bfloat16": ("BF16", torch.bfloat16), "float8_e4m3fn": ("F8_E4M3", torch.uint8)}


class Refused(Exception):
    """What was found, where, and what was wanted; one line."""

    def __init__(self, subject, found, wanted):
        super().__init__(f"{subject}: found {found}, wanted {wanted}")


# ---- Fingerprints: those of the library (backend/byte_hash.hpp)


def mix(h, word):
    h = (h ^ word) & MASK
    h ^= h >> 32
    h = h * 0x9E3779B97F4A7C15 & MASK
    h ^= h >> 29
    return h * 0xBF58476D1CE4E5B9 & MASK


def _hash_blocks(words, size):
    """words [blocks, steps, 4] of as many bytes each -> a hash each."""
    chains = numpy.tile(numpy.array([1, 2, 3, 4], numpy.uint64), (len(words), 1))
    one, other = numpy.uint64(0x9E3779B97F4A7C15), numpy.uint64(0xBF58476D1CE4E5B9)
    right, left = numpy.uint64(32), numpy.uint64(29)
    for step in range(words.shape[1]):
        chains ^= words[:, step]
        chains ^= chains >> right
        chains *= one
        chains ^= chains >> left
        chains *= other
    hashes = []
    for block in chains.tolist():
        h = size
        for chain in block:
            h = mix(h, chain)
        hashes.append(h)
    return hashes


def fingerprint(data, before=0):
    """Of bytes."""
    data = numpy.frombuffer(data, numpy.uint8)
    whole = len(data) // BLOCK
    hashes = []
    if whole:
        words = numpy.zeros((whole, BLOCK // 8 + 4), "<u8")  # the last step is of nothing
        words[:, : BLOCK // 8] = data[: whole * BLOCK].view("<u8").reshape(whole, -1)
        hashes += _hash_blocks(words.reshape(whole, -1, 4), BLOCK)
    rest = data[whole * BLOCK :]
    if len(rest):
        hashes.append(_hash_one(rest))
    for h in hashes:
        before = mix(before, h)
    return before


def text_hash(text):
    """Of a text at once."""
    return _hash_one(numpy.frombuffer(text.encode(), numpy.uint8))


def _hash_one(data):
    padded = numpy.zeros((len(data) // 32 + 1) * 32, numpy.uint8)
    padded[: len(data)] = data
    return _hash_blocks(padded.view("<u8").reshape(1, -1, 4), len(data))[0]


def as_bytes(tensor):
    return tensor.detach().contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def model_fingerprint(model):
    """Of a model's parameters and buffers, by their names."""
    h = 0
    for name, tensor in sorted(model.state_dict().items()):
        h = mix(mix(h, fingerprint(name.encode())), fingerprint(as_bytes(tensor.cpu().reshape(-1))))
    return h


# ---- Data


class Data:
    """Tokens, which of them are to be learnt, and where documents end."""

    def __init__(self, ids, mask=None, lengths=None):
        self.ids = numpy.asarray(ids, numpy.int64)
        self.mask = numpy.ones(len(self.ids), numpy.uint8) if mask is None else numpy.asarray(mask, numpy.uint8)
        self.ends = numpy.cumsum([len(self.ids)] if lengths is None else numpy.asarray(lengths, numpy.int64))
        self.ends = self.ends.astype("<i8")

    def check(self, name, vocabulary):
        if len(self.ids) and not 0 <= self.ids.min() <= self.ids.max() < vocabulary:
            at = int(numpy.flatnonzero((self.ids < 0) | (self.ids >= vocabulary))[0])
            raise Refused(f"{name}: token {at}", int(self.ids[at]), f"0 to {vocabulary - 1}")
        if len(self.mask) != len(self.ids) or (len(self.ends) and self.ends[-1] != len(self.ids)):
            raise Refused(name, f"{len(self.mask)} of a loss mask, documents of {int(self.ends[-1])} tokens",
                          f"{len(self.ids)} of both")
        if not self.mask.any():
            raise Refused(f"{name}: loss_mask", "no token to learn", "one or more")

    def has_mask(self):
        return not self.mask.all()

    def fingerprint(self, apart):
        most = int(self.ids.max()) if len(self.ids) else 0
        narrow = "u1" if most < 1 << 8 else "<u2" if most < 1 << 16 else "<i8"
        h = fingerprint(self.ids.astype(narrow).tobytes())
        if self.has_mask():
            h = mix(mix(h, 1), fingerprint(self.mask.tobytes()))
        return mix(mix(h, 2), fingerprint(self.ends.tobytes())) if apart else h

    def tensors(self):
        all_of = {"input_ids": torch.from_numpy(self.ids.astype(numpy.int32)),
                  "seq_lens": torch.from_numpy(numpy.diff(self.ends, prepend=0).astype(numpy.int64))}
        if self.has_mask():
            all_of["loss_mask"] = torch.from_numpy(self.mask)
        return all_of

    def windows(self, length, packed):
        """Of each, its pieces as (begin, end): within documents, one behind the other."""
        return self._packed(length) if packed else self._cut(length)

    def _cut(self, length):
        for begin in range(0, len(self.ids) - length + 1, length):
            ends = self.ends[bisect.bisect_right(self.ends, begin) : bisect.bisect_left(self.ends, begin + length)]
            places = sorted({begin, begin + length, *map(int, ends)})
            yield list(zip(places, places[1:]))

    def _packed(self, length):
        """Best fit, the longest first, as batches/packed_windows.hpp has it."""
        pieces, windows, room, begin = [], [], [], 0
        for end in map(int, self.ends):
            pieces += [(at, min(at + length, end)) for at in range(begin, end, length)]
            begin = end
        for piece in sorted(pieces, key=lambda one: one[0] - one[1]):
            size = piece[1] - piece[0]
            at = bisect.bisect_left(room, (size, 0))
            left, window = room.pop(at) if at < len(room) else (length, len(windows))
            if window == len(windows):
                windows.append([])
            windows[window].append(piece)
            if left > size:
                bisect.insort(room, (left - size, window))
        return windows


def read_safetensors(path, ending=""):
    """NumPy arrays by name, of names that end so, and the metadata. bfloat16 is uint16, float8 uint8."""
    kinds = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "BF16": "<u2", "U16": "<u2",
             "BOOL": "u1", "F16": "<f2", "F8_E4M3": "u1"}
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    try:
        data = numpy.memmap(path, numpy.uint8, "r")
        header = json.loads(data[8 : 8 + size].tobytes())
        metadata = header.pop("__metadata__", {})
        arrays = {}
        for name, info in header.items():
            if not name.endswith(ending):
                continue
            begin, end = info["data_offsets"]
            flat = numpy.frombuffer(data[8 + size + begin : 8 + size + end], kinds[info["dtype"]])
            arrays[name] = flat.reshape(info["shape"])
        return arrays, metadata
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(path, f"{type(error).__name__} {error}", "a safetensors file") from error


def read_data(path):
    """Data of a .npy file, a safetensors file or a folder of these."""
    if path.endswith(".npy"):
        ids = numpy.load(path)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise Refused(path, f"{ids.dtype} {list(ids.shape)}", "a list of integers")
        return Data(ids)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    ids, mask, lengths = [], [], []
    for name in names:
        file = os.path.join(path, name) if name else path
        if name and not name.endswith(".safetensors"):
            continue
        arrays, _ = read_safetensors(file)
        if "input_ids" not in arrays:
            raise Refused(f"{file}: input_ids", "no such tensor", "token ids")
        rows = arrays["input_ids"]
        own = arrays.get("loss_mask", numpy.ones(rows.shape, numpy.uint8))
        if own.shape != rows.shape:
            raise Refused(f"{file}: loss_mask", list(own.shape), f"{list(rows.shape)}, as input_ids")
        ids.append(rows.reshape(-1)), mask.append(own.reshape(-1))
        each = [rows.shape[-1]] * (rows.size // max(1, rows.shape[-1]))
        lengths += arrays["seq_lens"].tolist() if "seq_lens" in arrays else each
    if not ids:
        raise Refused(path, "no safetensors file", "one or more")
    return Data(numpy.concatenate(ids), numpy.concatenate(mask), lengths)


# ---- The cache

# The numbers of float8_e4m3fn that are not negative, in the order of their bits; what is between two goes to the nearer.
FLOAT8 = numpy.array([(i % 8) * 2.0**-9 if i < 8 else (8 + i % 8) * 2.0 ** (i // 8 - 10) for i in range(127)])


def to_float8(states):
    """Finite states [n, width] -> their bits, and what each is to be multiplied by: its largest number's share of 448."""
    numbers = states.numpy()
    largest = numpy.abs(numbers).max(1, initial=0)
    scales = numpy.maximum(largest / numpy.float32(448), numpy.float32(2.0**-126))
    scaled = numbers / scales[:, None]
    between = (FLOAT8[1:] + FLOAT8[:-1]) / 2
    magnitudes = numpy.abs(scaled).astype(numpy.float64)
    bits = numpy.searchsorted(between, magnitudes)
    odd = bits % 2 == 1  # of two that are as near, the even one
    bits += odd & (magnitudes == numpy.append(between, numpy.inf)[bits])
    return torch.from_numpy((bits + 128 * numpy.signbit(scaled)).astype(numpy.uint8)), torch.from_numpy(scales)


def taps_of(draft, layers, layer_ids, stream, count):
    """(state, layer counted from 0) of what a draft reads."""
    taps, block = [], draft != "eagle3"
    for layer in layers:
        number = layer - (1 if layer_ids == "layers_executed" else 0)
        if not (-1 if block else 0) <= number < count:
            raise Refused("--layers", layer, f"layers of a target that has {count}")
        if number == -1:
            taps.append(("embedding", 0))
        elif block and number == count - 1:
            taps.append(("post_norm", 0))
        else:
            taps.append((stream, number))
    if not taps or len(set(taps)) < len(taps):
        raise Refused("--layers", layers, "one or more, each once")
    return taps


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


class FeatureCache:
    """Writes a cache, as run/capture.hpp does. config: the target's, as JSON; taps: see taps_of; target: a number that
    stands for the model. All is checked before the first file is written."""

    def __init__(self, folder, config, taps, layers, train, heldout, embedding, head, *, target, length,
                 layer_ids="after_layer_0", aux_stream="running_sum", dtype="float", apart=False, packed=False, eval_windows=32, shard_windows=0):
        if os.path.isdir(folder) and os.listdir(folder):
            raise Refused(folder, os.listdir(folder)[0], "a new or an empty folder")
        if packed and not apart:
            raise Refused("--sampling", "packed", "it with --packing apart")
        if embedding.dim() != 2 or embedding.shape != head.shape:
            raise Refused("the embedding's and the head's weights", f"{list(embedding.shape)} and {list(head.shape)}",
                          "[vocabulary, hidden] both")
        vocabulary, self.hidden = head.shape
        text = config.get("text_config", config)
        for field, found in (("vocab_size", vocabulary), ("hidden_size", self.hidden)):
            if text.get(field) != found:
                raise Refused(f"config: {field}", text.get(field), f"{found}, as the head has it")
        for name, data in (("the data to train on", train), ("the data held out", heldout)):
            data.check(name, vocabulary)
        self.folder, self.length, self.apart, self.taps = folder, length, apart, taps
        self.train, self.heldout = train, heldout
        self.tables = {"embed_tokens": embedding.detach().float().cpu(), "lm_head": head.detach().float().cpu()}
        windows = [list(train.windows(length, packed)), list(heldout.windows(length, packed))[:eval_windows]]
        for name, found in zip(("the data to train on", "the data held out"), windows):
            if not found:
                raise Refused(name, "not enough tokens", f"a window of {length}")
        self.windows = [(train, pieces) for pieces in windows[0]] + [(heldout, pieces) for pieces in windows[1]]
        kind, self.type = STATES[dtype]
        self.scaled = kind == "F8_E4M3"
        number = torch.zeros(0, dtype=self.type).element_size()
        self.bytes_per_token = (12 if apart else 8) + (len(taps) + 1) * (self.hidden * number + (4 if self.scaled else 0))
        shard = shard_windows or max(1, SHARD_BYTES // (self.bytes_per_token * length))
        self.plan = {
            "format": 1,
            "target": {"config": config, "fingerprint": f"{target:016x}"},
            "states": {"layers": list(layers), "layer_ids": layer_ids, "aux_stream": aux_stream, "last": "post_norm",
                       "dtype": kind, "taps": [{"state": state, "layer": layer} for state, layer in taps]},
            "windows": {"length": length, "packing": "apart" if apart else "none",
                        "sampling": "packed" if packed else "shuffled", "shard": shard, "training": len(windows[0]),
                        "held_out": len(windows[1])},
            "tokens": {"training": f"{train.fingerprint(apart):016x}",
                       "held_out": f"{heldout.fingerprint(apart):016x}"}}
        self.id = f"{text_hash(compact(self.plan)):016x}"

    def write(self, states):
        """states(data, begin, end) -> the last, post-norm state [end - begin, hidden] and a list of as many of each tap,
        of tokens begin to end, which are one sequence. Yields after each file how many there are, and of how many."""
        os.makedirs(self.folder, exist_ok=True)
        self.files = []
        self._save("training.safetensors", self.train.tensors())
        self._save("held_out.safetensors", self.heldout.tensors())
        self._save("tables.safetensors", self.tables)
        shard = self.plan["windows"]["shard"]
        for first in range(0, len(self.windows), shard):
            with torch.no_grad():
                self._save(f"states-{first // shard:05}.safetensors", self._shard(states, first, first + shard))
            yield first // shard + 1, -(-len(self.windows) // shard)
        manifest = dict(self.plan, files=self.files)
        manifest["checksum"] = f"{text_hash(compact(manifest)):016x}"
        beside = os.path.join(self.folder, "features.json.part")
        with open(beside, "w", encoding="utf-8") as file:
            file.write(json.dumps(manifest, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
        os.replace(beside, os.path.join(self.folder, "features.json"))

    def _save(self, name, tensors):
        checksum = 0
        for _, tensor in sorted(tensors.items()):
            checksum = mix(checksum, fingerprint(as_bytes(tensor.reshape(-1))))
        path = os.path.join(self.folder, name)
        kinds = {name: "F8_E4M3" for name in ("last", "tapped") if self.scaled and name in tensors}
        save(path, tensors, {"capture": self.id, "checksum": f"{checksum:016x}"}, kinds)
        with open(path, "rb") as file:
            data = file.read()
        self.files.append({"name": name, "bytes": len(data), "checksum": f"{fingerprint(data):016x}"})

    def _shard(self, states, first, end):
        windows = self.windows[first:end]
        ids = torch.zeros(len(windows), self.length, dtype=torch.int32)
        lengths = torch.zeros_like(ids)
        last = torch.zeros(ids.numel(), self.hidden)
        tapped = torch.zeros(ids.numel(), len(self.taps) * self.hidden)
        top = torch.zeros(ids.numel(), dtype=torch.int32)
        for w, (data, pieces) in enumerate(windows):
            pieces = list(pieces)
            padding = self.length - sum(end - begin for begin, end in pieces)
            if padding:
                pieces.append(None)  # token 0, which nobody learns
            runs = pieces if self.apart else [(pieces[0][0], pieces[-1][1])]
            at = 0
            for d, piece in enumerate(runs):
                sequence = data if piece else Data([0] * padding)
                begin, stop = piece or (0, padding)
                n = stop - begin
                ids[w, at : at + n] = torch.from_numpy(sequence.ids[begin:stop].astype(numpy.int32))
                lengths[w, d] = n
                row = w * self.length + at
                post_norm, of_taps = self._checked(states(sequence, begin, stop), n)
                last[row : row + n] = post_norm
                tapped[row : row + n] = torch.cat(of_taps, 1)
                top[row : row + n] = torch.argmax(post_norm @ self.tables["lm_head"].T, 1).to(torch.int32)
                at += n
        tensors = {"ids": ids, "top": top}
        for name, wide in (("last", last), ("tapped", tapped)):
            if self.scaled:
                bits, scales = to_float8(wide.reshape(-1, self.hidden))
                tensors[name] = bits.reshape(wide.shape)
                tensors[f"{name}_scale"] = scales if name == "last" else scales.reshape(len(wide), -1)
            else:
                tensors[name] = wide.to(self.type)
        if self.apart:
            tensors["seq_lens"] = lengths
        return tensors

    def _checked(self, found, n):
        last, taps = found
        all_of = [("last", last)] + [(f"tap {i}", tap) for i, tap in enumerate(taps)]
        if len(taps) != len(self.taps):
            raise Refused("states", f"{len(taps)} taps", len(self.taps))
        for name, tensor in all_of:
            if tuple(tensor.shape) != (n, self.hidden):
                raise Refused(f"states: {name}", list(tensor.shape), [n, self.hidden])
            if not torch.isfinite(tensor).all():
                raise Refused(f"states: {name}", "numbers that are not finite", "finite ones")
        last, *taps = (tensor.detach().float().cpu() for _, tensor in all_of)
        return last, taps


# ---- A model


class Hooked:
    """The states that named modules of a model return."""

    def __init__(self, model, last, taps):
        self.model, self.names = model, [last, *taps]
        modules = dict(model.named_modules())
        for name in self.names:
            if name not in modules:
                raise Refused(f"module {name!r}", "none of that name", f"one of {', '.join(filter(None, modules))}")
        self.modules = modules

    def __call__(self, data, begin, end):
        kept = {}

        def keep(name):
            def hook(_, __, output):
                kept[name] = output if isinstance(output, torch.Tensor) else output[0]
            return hook

        hooks = [self.modules[name].register_forward_hook(keep(name)) for name in set(self.names)]
        try:
            parameter = next(self.model.parameters(), torch.zeros(0))
            self.model(torch.from_numpy(data.ids[None, begin:end].copy()).to(parameter.device))
        finally:
            for hook in hooks:
                hook.remove()
        last, *taps = (kept[name].reshape(end - begin, -1) for name in self.names)
        return last, taps


def load_function(spec):
    file, colon, function = spec.rpartition(":")
    if not colon:
        raise Refused("model", spec, "FILE.py:FUNCTION")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    found = importlib.util.spec_from_file_location("model_to_dump", file)
    source = importlib.util.module_from_spec(found)
    found.loader.exec_module(source)
    return getattr(source, function)


def arguments():
    """The command line. --layers takes a list that may begin with -1, which argparse would take for an option."""
    given = []
    for argument in sys.argv[1:]:
        if given and given[-1] == "--layers":
            given[-1] += "=" + argument
        else:
            given.append(argument)
    return given


def add_cache_options(parser):
    parser.add_argument("--config", required=True, help="the target's config.json")
    parser.add_argument("--out", required=True, help="the folder to write")
    parser.add_argument("--draft", default="eagle3", choices=["eagle3", "dflash", "dspark"])
    parser.add_argument("--layers", required=True, help="the target's layers that the draft reads, with commas")
    parser.add_argument("--layer-ids", default="after_layer_0", choices=["after_layer_0", "layers_executed"])
    parser.add_argument("--aux-stream", default="running_sum", choices=["running_sum", "residual_mixture"],
                        help="what the layers' states are")
    parser.add_argument("--dtype", default="float", choices=list(STATES), help="what the states are written as")
    parser.add_argument("--eval-windows", type=int, default=32, help="windows of held-out data, at most")
    parser.add_argument("--shard-windows", type=int, default=0, help="windows of a file [as many as make 64 MB]")


def integer(text):
    """As the library reads it: a float where no integer of 64 bits holds it."""
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 64 else float(text)


def read_config(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_int=integer)


def write_all(cache, states):
    windows = cache.plan["windows"]
    print(f"{windows['training']} windows of {windows['length']} tokens and {windows['held_out']} held out, "
          f"{cache.bytes_per_token} bytes per token")
    for made, of in cache.write(states):
        print(f"{made} of {of} files", flush=True)
    print(f"features: {cache.folder}")


def main():
    parser = argparse.ArgumentParser(description="Writes what a PyTorch model says of data, to train drafts from.")
    parser.add_argument("model", metavar="FILE.py:FUNCTION", help="returns the model")
    add_cache_options(parser)
    parser.add_argument("--train", required=True)
    parser.add_argument("--heldout", required=True)
    parser.add_argument("--length", type=int, default=64, help="tokens a window")
    parser.add_argument("--packing", default="none", choices=["none", "apart"])
    parser.add_argument("--sampling", default="shuffled", choices=["shuffled", "packed"])
    parser.add_argument("--layer-name", default="model.layers.{}", help="a layer's module, {} its number from 0")
    parser.add_argument("--norm", default="model.norm", help="the module whose output the head reads")
    parser.add_argument("--head", default="lm_head")
    parser.add_argument("--embedding", default="model.embed_tokens")
    args = parser.parse_args(arguments())
    config = read_config(args.config)
    layers = [int(layer) for layer in args.layers.split(",")]
    taps = taps_of(args.draft, layers, args.layer_ids, args.aux_stream,
                   config.get("text_config", config)["num_hidden_layers"])
    model = load_function(args.model)().eval()
    names = {"embedding": lambda _: args.embedding, "post_norm": lambda _: args.norm}
    of_taps = [names.get(state, args.layer_name.format)(layer) for state, layer in taps]
    states = Hooked(model, args.norm, of_taps + [args.head, args.embedding])
    weights = [states.modules[name].weight for name in (args.embedding, args.head)]
    states.names = [args.norm, *of_taps]
    cache = FeatureCache(args.out, config, taps, layers, read_data(args.train), read_data(args.heldout), *weights,
                         target=model_fingerprint(model), length=args.length, layer_ids=args.layer_ids,
                         aux_stream=args.aux_stream, dtype=args.dtype, apart=args.packing == "apart",
                         packed=args.sampling == "packed", eval_windows=args.eval_windows,
                         shard_windows=args.shard_windows)
    write_all(cache, states)


def run(program):
    try:
        program()
    except (Refused, OSError) as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {error}")


if __name__ == "__main__":
    run(main)
