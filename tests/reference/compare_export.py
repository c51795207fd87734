"""Compare a draft in the engine layout with this library: python3 compare_export.py FOLDER PROBE [--tolerance X]

FOLDER has model.safetensors and config.json as `convert_draft` writes them; PROBE is the file that its --probe writes:
token ids, auxiliary states, and the logits this library computes from the exported weights at every unrolled step.
The modules below are plain PyTorch, with the layout's names, in float64; nothing is shared with k3ref.
"""

import argparse
import json
import math
import os
import struct
import sys

import torch
from torch import nn

TYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64, "BOOL": torch.bool}


def read_safetensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        tensors[name] = torch.frombuffer(data[begin:end], dtype=TYPES[info["dtype"]]).reshape(info["shape"])
    return tensors


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(width)), eps

    def forward(self, x):
        return self.weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)


def mscale(factor, weight):
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def inverse_frequencies(c):
    """As vLLM reads the layout's config, in float32: the base stands in the dictionary of the rotary positions or is
    10,000, and any such dictionary is a YaRN's, at every position."""
    dim, scaling = c["qk_rope_head_dim"], c.get("rope_scaling") or {}
    theta = scaling.get("rope_theta", 10000)
    plain = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    if not scaling:
        return plain

    def turns_to_index(turns):
        return dim * math.log(scaling["original_max_position_embeddings"] / (2 * math.pi * turns)) / (2 * math.log(theta))

    first = max(math.floor(turns_to_index(scaling.get("beta_fast", 32))), 0)
    last = min(math.ceil(turns_to_index(scaling.get("beta_slow", 1))), dim - 1)
    width = last - first if last > first else 0.001
    stretched = ((torch.arange(dim // 2, dtype=torch.float32) - first) / width).clamp(0, 1)
    return plain / scaling["factor"] * stretched + plain * (1 - stretched)


def rotation_factor(c):
    """What cosine and sine are multiplied by."""
    scaling = c.get("rope_scaling")
    if not scaling:
        return 1.0
    return mscale(scaling["factor"], scaling.get("mscale", 1)) / mscale(scaling["factor"], scaling.get("mscale_all_dim", 0))


def rotate(x, phase, frequencies, factor):
    """Pairs of neighbours as complex numbers. x [..., T, heads, rope], phase [T]."""
    angles = (phase.float()[:, None] * frequencies).double()[:, None, :]
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.full_like(angles, factor), angles)
    return torch.view_as_real(turned).flatten(-2)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.heads = c, c["num_attention_heads"]
        self.nope, self.rope, self.v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        wide, latent, rank = 2 * c["hidden_size"], c["kv_lora_rank"], c.get("q_lora_rank")
        queries = self.heads * (self.nope + self.rope)
        if rank is None:
            self.q_proj = nn.Linear(wide, queries, bias=False)
        else:
            self.q_a_proj = nn.Linear(wide, rank, bias=False)
            self.q_a_layernorm = RMSNorm(rank, c["rms_norm_eps"])
            self.q_b_proj = nn.Linear(rank, queries, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(wide, latent + self.rope, bias=False)
        self.kv_a_layernorm = RMSNorm(latent, c["rms_norm_eps"])
        self.kv_b_proj = nn.Linear(latent, self.heads * (self.nope + self.v), bias=False)
        self.o_proj = nn.Linear(self.heads * self.v, c["hidden_size"], bias=False)
        self.scale = (self.nope + self.rope) ** -0.5
        scaling = c.get("rope_scaling") or {}
        if scaling.get("mscale_all_dim"):  # as engines do, whatever the file says of conventions
            self.scale *= mscale(scaling["factor"], scaling["mscale_all_dim"]) ** 2

    def forward(self, x, step, earlier):
        """x [B, T, 2H]; `earlier`: (key, value) of the steps before, to which this one's are added."""
        rows = x.shape[1]
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))) if hasattr(self, "q_a_proj") else self.q_proj(x)
        q = q.unflatten(-1, (self.heads, -1))
        kv = self.kv_a_proj_with_mqa(x)
        turn = torch.arange(rows) + step, inverse_frequencies(self.c), rotation_factor(self.c)
        k_rope = rotate(kv[..., None, -self.rope :], *turn)
        q = torch.cat([q[..., : self.nope], rotate(q[..., self.nope :], *turn)], -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(kv[..., : -self.rope])).unflatten(-1, (self.heads, -1))
        k = torch.cat([kv[..., : self.nope], k_rope.expand(-1, -1, self.heads, -1)], -1)
        earlier.append((k, kv[..., self.nope :]))
        keys, values = (torch.cat([pair[i] for pair in earlier], 1) for i in (0, 1))
        # All keys of step 0 that are not ahead, and of each later step the one at the query's own position.
        seen = torch.cat([torch.ones(rows, rows).tril()] + [torch.eye(rows)] * (len(earlier) - 1), 1).bool()
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) * self.scale
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.o_proj(torch.einsum("bhqk,bkhd->bqhd", weights, values).flatten(-2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            setattr(self, name, RMSNorm(c["hidden_size"], c["rms_norm_eps"]))
        self.self_attn, self.mlp = Attention(c), Mlp(c)

    def forward(self, embeds, hidden, step, earlier):
        x = torch.cat([self.input_layernorm(embeds), self.hidden_norm(hidden)], -1)
        hidden = hidden + self.self_attn(x, step, earlier)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Draft(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, self.c = c["hidden_size"], c
        aux, wide = len(c["eagle_config"]["eagle_aux_hidden_state_layer_ids"]), c.get("target_hidden_size", hidden)
        self.embed_tokens = nn.Embedding(c["vocab_size"], hidden)
        self.fc = nn.Linear(aux * wide, hidden, bias=False)
        if c.get("fc_norm"):
            self.fc_norm = nn.ModuleList(RMSNorm(wide, c["rms_norm_eps"]) for _ in range(aux))
        self.midlayer = Layer(c)
        self.norm = RMSNorm(hidden, c["rms_norm_eps"])
        self.lm_head = nn.Linear(hidden, c["draft_vocab_size"], bias=False)
        if c["draft_vocab_size"] != c["vocab_size"]:
            self.register_buffer("d2t", torch.empty(c["draft_vocab_size"], dtype=torch.int64))
            self.register_buffer("t2d", torch.empty(c["vocab_size"], dtype=torch.bool))

    def forward(self, ids, aux, steps):
        if self.c.get("fc_norm"):
            aux = torch.cat([norm(x) for norm, x in zip(self.fc_norm, aux.chunk(len(self.fc_norm), -1))], -1)
        hidden, earlier, logits = self.fc(aux), [], []
        for step in range(steps):
            shifted = torch.cat([ids[:, step:], torch.zeros_like(ids[:, :step])], 1)
            hidden = self.midlayer(self.embed_tokens(shifted), hidden, step, earlier)
            if self.c.get("norm_output"):
                hidden = self.norm(hidden)
            logits.append(self.lm_head(hidden if self.c.get("norm_output") else self.norm(hidden)))
        return logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("probe")
    parser.add_argument("--tolerance", type=float, default=1e-10)
    args = parser.parse_args()
    with open(os.path.join(args.folder, "config.json")) as file:
        config = json.load(file)
    tensors = read_safetensors(os.path.join(args.folder, "model.safetensors"))
    probe = read_safetensors(args.probe)
    if "embed_tokens.weight" not in tensors:  # engines take the target's
        tensors["embed_tokens.weight"] = probe["embed_tokens.weight"]
    draft = Draft(config).double()
    draft.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}, strict=True)
    if hasattr(draft, "d2t"):
        said = torch.arange(draft.d2t.numel()) + draft.d2t
        assert draft.t2d.nonzero().flatten().equal(said.sort().values), "d2t and t2d disagree"
    steps = sum(name.startswith("logits.") for name in probe)
    worst = 0.0
    with torch.no_grad():
        for step, found in enumerate(draft(probe["input_ids"], probe["aux_hidden_states"].double(), steps)):
            wanted = probe[f"logits.{step}"].double()
            worst = max(worst, float((found - wanted).abs().max() / wanted.abs().max()))
    print(f"{steps} steps, {len(tensors)} tensors: logits differ by {worst:.3g} at most, relative to the largest")
    return 0 if worst <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
