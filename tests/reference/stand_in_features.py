"""A cache that capture made, given out again: by a PyTorch model that looks its states up, and as the files of other
trainers. What is made of either must come to the cache's own numbers."""

import json
import os
import sys

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples"))
import dump_features as df  # noqa: E402


def load_cache(folder):
    """The manifest, and the tensors of each file."""
    with open(os.path.join(folder, "features.json"), encoding="utf-8") as file:
        plan = json.load(file)
    return plan, {one["name"]: df.read_safetensors(os.path.join(folder, one["name"]))[0] for one in plan["files"]}


def of_shard(shard, name):
    """States [rows, ...]; the bytes of their scales, where they have these, behind them."""
    states, scales = shard[name], shard.get(f"{name}_scale")
    return states if scales is None else numpy.hstack([states, scales.reshape(len(states), -1).view(numpy.uint8)])


def sequences(plan, files):
    """(ids, last, tapped, whether held out) of each document of each window, in their order."""
    window, apart = 0, plan["windows"]["packing"] == "apart"
    for name in sorted(name for name in files if name.startswith("states-")):
        shard = files[name]
        last, tapped = of_shard(shard, "last"), of_shard(shard, "tapped")
        for w, ids in enumerate(shard["ids"]):
            lengths = shard["seq_lens"][w] if apart else [len(ids)]
            at = 0
            for n in (int(n) for n in lengths if n):
                row = w * len(ids) + at
                yield (ids[at : at + n], last[row : row + n], tapped[row : row + n],
                       window >= plan["windows"]["training"])
                at += n
            window += 1


class Gives(torch.nn.Module):
    """Returns what it was called with; as a tuple, as transformers' layers do."""

    def __init__(self, plain):
        super().__init__()
        self.plain = plain

    def forward(self, x):
        return x if self.plain else (x, None)


class StandIn(torch.nn.Module):
    """model.embed_tokens, model.layers, model.norm and lm_head around a look-up."""

    def __init__(self, folder):
        super().__init__()
        plan, files = load_cache(folder)
        tables = files["tables.safetensors"]
        vocabulary, hidden = tables["lm_head"].shape
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(vocabulary, hidden)
        self.model.layers = torch.nn.ModuleList(Gives(i % 2 == 0) for i in range(8))
        self.model.norm = Gives(True)
        self.lm_head = torch.nn.Linear(hidden, vocabulary, bias=False)
        self.model.embed_tokens.weight = torch.nn.Parameter(torch.from_numpy(tables["embed_tokens"].copy()))
        self.lm_head.weight = torch.nn.Parameter(torch.from_numpy(tables["lm_head"].copy()))
        self.taps, self.hidden = plan["states"]["taps"], hidden
        self.known = {ids.astype(numpy.int64).tobytes(): (last, tapped)
                      for ids, last, tapped, _ in sequences(plan, files)}

    def forward(self, ids):
        last, tapped = self.known[ids.numpy().astype(numpy.int64).tobytes()]
        if ids.shape[0] != 1:
            raise ValueError("one sequence")
        for i, tap in enumerate(self.taps):
            state = tapped[None, :, i * self.hidden : (i + 1) * self.hidden]
            self.model.layers[tap["layer"]](torch.from_numpy(state.copy()))
        return self.lm_head(self.model.norm(torch.from_numpy(last[None].copy())))


def make():
    return StandIn(os.environ["STAND_IN"])


def again(folder, out):
    """The cache, byte for byte: its own plan and fingerprint, states from the hooked model."""
    plan, _ = load_cache(folder)
    states, windows = plan["states"], plan["windows"]
    taps = [(tap["state"], tap["layer"]) for tap in states["taps"]]
    hooked = df.Hooked(StandIn(folder), "model.norm", [f"model.layers.{layer}" for _, layer in taps])
    weights = [hooked.modules[name].weight for name in ("model.embed_tokens", "lm_head")]
    data = [df.read_data(os.path.join(folder, name)) for name in ("training.safetensors", "held_out.safetensors")]
    cache = df.FeatureCache(out, plan["target"]["config"], taps, states["layers"], *data, *weights,
                            target=int(plan["target"]["fingerprint"], 16), length=windows["length"],
                            layer_ids=states["layer_ids"], aux_stream=states["aux_stream"],
                            apart=windows["packing"] == "apart", packed=windows["sampling"] == "packed",
                            eval_windows=windows["held_out"], shard_windows=windows["shard"])
    for _ in cache.write(hooked):
        pass


def stored(folder, out, origin):
    """The documents as SpecForge's or EAGLE's files: the held-out ones last, which is where a converter looks."""
    plan, files = load_cache(folder)
    known = {(held, ids.tobytes()): (last, tapped) for ids, last, tapped, held in sequences(plan, files)}
    number = 0
    for held, name in enumerate(("training.safetensors", "held_out.safetensors")):
        data = df.read_data(os.path.join(folder, name))
        begin = 0
        for end in map(int, data.ends):
            ids = data.ids[begin:end]
            last, tapped = (torch.from_numpy(x.copy()) for x in known[bool(held), ids.astype(numpy.int32).tobytes()])
            one = {"input_ids": torch.from_numpy(ids.copy()),
                   "loss_mask": torch.from_numpy(data.mask[begin:end].astype(numpy.int64))}
            if origin == "specforge":
                one.update(hidden_state=last[None], aux_hidden_state=tapped[None])
            else:
                one["hidden_state"] = last
            place = os.path.join(out, f"rows_{number // 4 * 4}-{number // 4 * 4 + 4}")
            os.makedirs(place, exist_ok=True)
            torch.save(one, os.path.join(place, f"data_{number}.ckpt"))
            number, begin = number + 1, end
        print(number)


def same(folder, other):
    """Whether two caches have the same states but where windows are filled up, and how many rows these are."""
    of, more = (list(sequences(*load_cache(one))) for one in (folder, other))
    filled = 0
    for a, b in zip(of, more):
        if not numpy.array_equal(a[0], b[0]):
            sys.exit("other tokens")
        if not a[0].any():
            filled += len(a[0])
        elif a[1].tobytes() != b[1].tobytes() or a[2].tobytes() != b[2].tobytes():
            sys.exit("other states")
    if len(of) != len(more) or not filled:
        sys.exit(f"{len(of)} and {len(more)} documents, {filled} rows that fill windows up")


if __name__ == "__main__":
    {"again": again, "stored": stored, "same": same}[sys.argv[1]](*sys.argv[2:])
