"""What speculators' versions store, made of a cache that capture wrote, comes back to the cache's own numbers; damaged
and foreign files are refused by name. Arguments: the cache (packed, apart), the target's checkpoint, its config.json, a
folder to work in."""

import json
import os
import shutil
import sys

import numpy
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stand_in_features as stand_in  # noqa: E402, it finds examples/

import convert_features as cf  # noqa: E402
from dump_module import save  # noqa: E402

captured, target, config, work = sys.argv[1:]
HELD_OUT = 12


def convert(folder, out, *more):
    """examples/convert_features.py, in this process."""
    sys.argv = ["convert_features.py", folder, "--from", "speculators", "--target", target, "--config", config,
                "--heldout-files", str(HELD_OUT), "--eval-windows", "20", "--out", out, *more]
    cf.main()


def refused(wanted, *arguments):
    out = os.path.join(work, "refused")
    try:
        convert(arguments[0], out, *arguments[1:])
    except cf.Refused as error:
        if wanted not in str(error):
            sys.exit(f"refused with: {error}; wanted: {wanted}")
    else:
        sys.exit(f"not refused: {wanted}")
    shutil.rmtree(out, ignore_errors=True)  # states are read while it is written


def documents():
    """(ids, loss mask, last [n, hidden], the states of three layers [n, 3 * hidden]); the held-out ones last."""
    plan, files = stand_in.load_cache(captured)
    known = {(held, ids.tobytes()): (last, tapped) for ids, last, tapped, held in stand_in.sequences(plan, files)}
    for held, name in enumerate(("training.safetensors", "held_out.safetensors")):
        data, begin = stand_in.df.read_data(os.path.join(captured, name)), 0
        for end in map(int, data.ends):
            ids = data.ids[begin:end].astype(numpy.int32)
            yield ids, data.mask[begin:end], *known[bool(held), ids.tobytes()]
            begin = end


all_of_them = [tuple(torch.from_numpy(numpy.array(part)) for part in one) for one in documents()]
slots = [torch.stack([*torch.chunk(tapped, 3, 1), last], 1) for _, _, last, tapped in all_of_them]  # [n, 4, hidden]


def lists(at):
    """As 0.3 and 0.4."""
    os.makedirs(at)
    for number, ((ids, mask, _, _), states) in enumerate(zip(all_of_them, slots)):
        one = {"input_ids": ids.long(), "loss_mask": mask.long(), "hidden_states": [s.clone() for s in states.unbind(1)]}
        torch.save(one, os.path.join(at, f"data_{number}.pt"))
    with open(os.path.join(at, "data_config.json"), "w", encoding="utf-8") as file:
        json.dump({"version": "2.0", "hidden_states": {"layer_ids": [0, 3, 6, 7]}}, file)
    return at


def tensors(at, kind=torch.float32):
    """As 0.5 and later, and the loss masks beside it."""
    os.makedirs(at)
    with open(at + ".jsonl", "w", encoding="utf-8") as file:
        for number, ((ids, mask, _, _), states) in enumerate(zip(all_of_them, slots)):
            save(os.path.join(at, f"hs_{number}.safetensors"), {"token_ids": ids.long(), "hidden_states": states.to(kind)}, {})
            print(json.dumps({"input_ids": ids.tolist(), "loss_mask": mask.tolist()}), file=file)
    return at


def states_of(cache, name):
    plan, files = stand_in.load_cache(cache)
    return numpy.concatenate([files[one["name"]][name] for one in plan["files"] if one["name"].startswith("states-")])


old, new = lists(os.path.join(work, "old")), tensors(os.path.join(work, "new"))
old_flags = ("--layers", "0,3,6", "--last-state", "post_norm")
new_flags = ("--layers", "1,4,7", "--layer-ids", "layers_executed", "--masks", new + ".jsonl", "--last-state", "post_norm")
for folder, flags in ((old, old_flags), (new, new_flags)):
    convert(folder, folder + ".cache", *flags)
    stand_in.same(captured, folder + ".cache")

# A last state that the norm is still to read, and states in bfloat16.
convert(tensors(os.path.join(work, "half"), torch.bfloat16), os.path.join(work, "normed"), *new_flags[:4], "--masks",
        os.path.join(work, "half.jsonl"), "--last-state", "norm_input")
_, files = stand_in.load_cache(captured)
weight = next(array for path in os.listdir(target) if path.endswith(".safetensors")
              for name, array in stand_in.df.read_safetensors(os.path.join(target, path))[0].items()
              if name.endswith("model.norm.weight"))
weight = (weight.astype(numpy.uint32) << 16).view(numpy.float32).astype(float) if weight.dtype == numpy.uint16 else weight
half = torch.from_numpy(states_of(captured, "last")).to(torch.bfloat16).double().numpy()
wanted = half / numpy.sqrt((half**2).mean(1, keepdims=True) + 1e-5) * weight
found = states_of(os.path.join(work, "normed"), "last")
filled = ~numpy.any(found, 1)  # rows that fill windows up
wanted[filled] = 0
if not numpy.allclose(found, wanted, rtol=1e-6, atol=1e-7) or filled.all():
    sys.exit(f"the norm: off by {abs(found - wanted).max()}")

# Of one model, of one version, whole.
refused("config: attn_res_block_size: found 4, wanted --last-state too", old, "--layers", "0,3,6")
refused("layer_ids: found [0, 3, 6, 7], wanted [0, 3, 5, 7], of --layers and the last one", old, "--layers", "0,3,5", *old_flags[2:])
refused("--masks: found nothing, wanted it with hs_N.safetensors", new, *new_flags[:4], *new_flags[6:])
refused(f"--masks: found {new}.jsonl, wanted it with hs_N.safetensors", old, *old_flags, "--masks", new + ".jsonl")
refused("found no file of such a name, wanted what speculators has stored", target, *old_flags)
refused("a tensor whose name ends in other.weight: found none, wanted one", old, "--layers", "0,3,6", "--last-state",
        "norm_input", "--norm", "other.weight")
shutil.copy(os.path.join(old, "data_1.pt"), new)
refused("found files .pt and .safetensors, wanted those of one version", new, *new_flags)
os.remove(os.path.join(new, "data_1.pt"))
shutil.copytree(new, os.path.join(work, "arrow"))
try:
    import pyarrow
except ImportError:
    refused("found no Python package pyarrow, wanted it, or JSON lines", new, *new_flags[:4], "--masks", old, *new_flags[6:])
else:
    at = os.path.join(work, "masks")
    os.makedirs(at)
    table = pyarrow.table({"seq_len": [len(one[0]) for one in all_of_them],
                           "input_ids": [one[0].long().numpy() for one in all_of_them],
                           "loss_mask": [one[1].long().numpy() for one in all_of_them]})
    with pyarrow.OSFile(os.path.join(at, "data.arrow"), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as out:
        out.write_table(table, max_chunksize=7)
    with open(os.path.join(at, "state.json"), "w", encoding="utf-8") as file:
        json.dump({"_data_files": [{"filename": "data.arrow"}]}, file)
    convert(new, new + ".arrow", *new_flags[:4], "--masks", at, *new_flags[6:])
    stand_in.same(captured, new + ".arrow")
    with open(os.path.join(at, "data.arrow"), "r+b") as file:
        file.truncate(100)
    refused("wanted what datasets' save_to_disk wrote", new, *new_flags[:4], "--masks", at, *new_flags[6:])


def damaged(wanted, folder, flags, name, change):
    """A file, changed; then as it was."""
    path = os.path.join(folder, name)
    with open(path, "rb") as file:
        before = file.read()
    change(path)
    refused(wanted, folder, *flags)
    with open(path, "wb") as file:
        file.write(before)


def with_list(change):
    def apply(path):
        one = torch.load(path)
        change(one)
        torch.save(one, path)

    return apply


def with_tensors(**other):
    def apply(path):
        arrays = {name: cf.as_tensor(array) for name, array in stand_in.df.read_safetensors(path)[0].items()}
        arrays.update({name: change(arrays.get(name)) for name, change in other.items()})
        save(path, {name: one for name, one in arrays.items() if one is not None}, {})

    return apply


def cut(path):
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


def not_finite(states):
    states[0, 1, 2] = float("nan")
    return states


for wanted, change in (
        ("hidden_states: found 3 layers, wanted 4, the last layer with them", lambda one: one["hidden_states"].pop()),
        ("hidden_states: 1: found [14, 128], wanted [15, 128]", lambda one: one["hidden_states"].__setitem__(
            1, one["hidden_states"][1][1:])),
        ("hidden_states: 2: found torch.int64, wanted floats", lambda one: one["hidden_states"].__setitem__(
            2, one["hidden_states"][2].long())),
        ("input_ids: found torch.float32, wanted integers", lambda one: one.update(input_ids=one["input_ids"].float())),
        ("loss_mask: found no such field, wanted a tensor", lambda one: one.pop("loss_mask"))):
    damaged("data_5.pt: " + wanted, old, old_flags, "data_5.pt", with_list(change))
damaged("data_5.pt: found ", old, old_flags, "data_5.pt", cut)
damaged("data_config.json: found ", old, old_flags, "data_config.json", cut)
for wanted, change in (
        ("token_ids: found other tokens, wanted those of number 5", with_tensors(token_ids=lambda ids: ids.flip(0) + 1)),
        ("hidden_states: found numbers that are not finite", with_tensors(hidden_states=not_finite)),
        ("hidden_states: found [15, 3, 128], wanted [15, 4, 128]", with_tensors(hidden_states=lambda s: s[:, 1:])),
        ("token_ids: found no such field, wanted a tensor", with_tensors(token_ids=lambda ids: None))):
    damaged("hs_5.safetensors: " + wanted, new, new_flags, "hs_5.safetensors", change)
damaged("hs_5.safetensors: found ", new, new_flags, "hs_5.safetensors", cut)
for wanted, keep in (("new.cut: line 3: found ", 2.5), ("new.cut: found 3 conversations, wanted one of number 3, as ", 3)):
    with open(new + ".jsonl", encoding="utf-8") as file, open(new + ".cut", "w", encoding="utf-8") as out:
        lines = [next(file) for _ in range(3)]
        out.write("".join(lines[:2]) + (lines[2] if keep == 3 else lines[2][: len(lines[2]) // 2]))
    refused(wanted, new, *new_flags[:4], "--masks", new + ".cut", *new_flags[6:])
