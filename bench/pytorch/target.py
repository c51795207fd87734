"""The frozen Kimi K3 target: a prompt's forward, and one token at a time behind it."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import checkpoint
from target_layers import DeltaAttention, DenseMLP, LatentAttention, LatentMoE, Tensors, rms_norm


class ResidualMix:
    """Mixes earlier sums and the current one by how their normed values score. [B, T, H] each -> [B, T, H]"""

    def __init__(self, t: Tensors, name: str, eps: float) -> None:
        self.weight, self.eps = t[name + "_norm.weight"] * t[name + "_proj.weight"].squeeze(0), eps

    def __call__(self, current: Tensor, earlier: list[Tensor]) -> Tensor:
        values = torch.stack([*earlier, current], dim=-2)
        scores = rms_norm(values, self.weight, self.eps).sum(-1, keepdim=True)
        return (scores.softmax(-2) * values).sum(-2)


class Layer:
    """A decoder layer's parts."""

    def __init__(self, t: Tensors, i: int, c: dict, sequences: int, capacity: int) -> None:
        at, eps = f"model.layers.{i}.", c["rms_norm_eps"]
        full = i + 1 in c["linear_attn_config"]["full_attn_layers"]
        self.attention = (LatentAttention if full else DeltaAttention)(t, at + "self_attn.", c, sequences, capacity)
        moe = i >= c["first_k_dense_replace"] and i % c["moe_layer_freq"] == 0
        self.mlp = LatentMoE(t, at + "block_sparse_moe.", c) if moe else DenseMLP(t, at + "mlp.", c)
        self.input_norm, self.mlp_norm = t[at + "input_layernorm.weight"], t[at + "post_attention_layernorm.weight"]
        self.attention_mix = ResidualMix(t, at + "self_attention_res", eps)
        self.mlp_mix = ResidualMix(t, at + "mlp_res", eps)
        self.starts_block = i % c["attn_res_block_size"] == 0


class Target:
    """The model, with memory for some sequences of up to `capacity` tokens."""

    def __init__(self, folder: Path, sequences: int, capacity: int) -> None:
        c, t = checkpoint.load(folder)
        self.eps = c["rms_norm_eps"]
        self.embed_tokens, self.head, self.norm = t["model.embed_tokens.weight"], t["lm_head.weight"], t["model.norm.weight"]
        self.layers = [Layer(t, i, c, sequences, capacity) for i in range(c["num_hidden_layers"])]
        self.output_mix = ResidualMix(t, "model.output_attn_res", self.eps)

    def forward(self, ids: Tensor, position: Tensor | None = None) -> Tensor:
        """ids [B, T] of new sequences, or [B, 1] at `position` [1] -> logits [B, T, V]"""
        x = F.embedding(ids, self.embed_tokens)
        blocks: list[Tensor] = []
        for layer in self.layers:
            if position is None:
                layer.attention.reset()
            attention_in = layer.attention_mix(x, blocks) if blocks else x
            attended = layer.attention(rms_norm(attention_in, layer.input_norm, self.eps), position)
            if layer.starts_block:
                blocks = [*blocks, x]
                x = attended
            else:
                x = x + attended
            x = x + layer.mlp(rms_norm(layer.mlp_mix(x, blocks), layer.mlp_norm, self.eps))
        return F.linear(rms_norm(self.output_mix(x, blocks), self.norm, self.eps), self.head)
