"""What the drafts and the target share: norm, gated MLP, multi-head latent attention's projections, attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean x² + eps) · weight over the last axis."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps=eps)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A product without a bias."""
    return nn.Linear(inputs, outputs, bias=False)


def situ(gate: Tensor, up: Tensor, beta: float, linear_beta: float | None) -> Tensor:
    """β·tanh(g/β)·σ(g) ⊙ λ·tanh(u/λ); without λ, u as it is."""
    if linear_beta is not None:
        up = linear_beta * torch.tanh(up / linear_beta)
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * up


class SituMLP(nn.Module):
    """Kimi K3's gated MLP. [..., H] -> [..., H]"""

    def __init__(self, hidden: int, inner: int, c: dict) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)
        self.beta, self.linear_beta = c["situ_beta"], c["situ_linear_beta"]

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(situ(self.gate_proj(x), self.up_proj(x), self.beta, self.linear_beta))


class MLA(nn.Module):
    """Multi-head latent attention without its attention: projections, and the gated output. No positions."""

    def __init__(self, inputs: int, c: dict) -> None:
        super().__init__()
        heads, rank, eps = c["num_attention_heads"], c["kv_lora_rank"], c["mla_norm_eps"]
        self.nope, self.rope, self.v_dim = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        self.heads, self.rank = heads, rank
        self.q_a_proj = linear(inputs, c["q_lora_rank"])
        self.q_a_layernorm = RMSNorm(c["q_lora_rank"], eps)
        self.q_b_proj = linear(c["q_lora_rank"], heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = linear(inputs, rank + self.rope)
        self.kv_a_layernorm = RMSNorm(rank, eps)
        self.kv_b_proj = linear(rank, heads * (self.nope + self.v_dim))
        self.g_proj = linear(inputs, heads * self.v_dim)
        self.o_proj = linear(heads * self.v_dim, c["hidden_size"])

    def queries(self, x: Tensor) -> Tensor:
        """[B, T, in] -> [B, N, T, nope + rope]"""
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        return q.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, in] -> keys [B, N, T, nope + rope], values [B, N, T, v]; the rope slice is all heads' own."""
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], dim=-1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.v_dim], dim=-1)
        k_rope = k_rope.unsqueeze(1).expand(-1, self.heads, -1, -1)
        return torch.cat((k_nope, k_rope), dim=-1), v

    def output(self, attended: Tensor, x: Tensor) -> Tensor:
        """attended [B, N, T, v], x what was projected [B, T, in] -> [B, T, H]"""
        return self.o_proj(attended.transpose(1, 2).flatten(-2) * torch.sigmoid(self.g_proj(x)))


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """SDPA where values are narrower than keys: its fused kernel wants them alike. [B, N, T, ·] -> [B, N, T, v]"""
    out = F.scaled_dot_product_attention(q, k, F.pad(v, (0, k.shape[-1] - v.shape[-1])), mask, is_causal=causal)
    return out[..., : v.shape[-1]]
