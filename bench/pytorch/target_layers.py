"""The layers of the frozen Kimi K3 target: Kimi delta attention, latent attention, dense and latent MoE MLPs.

Weights are taken from a checkpoint's tensors `t`; products of the same input are one product. x [B, T, H] -> [B, T, H].
"""

import torch
import torch.nn.functional as F
from torch import Tensor

import kda
from layers import attention, situ

Tensors = dict[str, Tensor]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Over the last axis."""
    return F.rms_norm(x, weight.shape, weight, eps)


class DeltaAttention:
    """Kimi delta attention with its memory: the last tokens before the convolution, and the recurrent state."""

    def __init__(self, t: Tensors, at: str, c: dict, sequences: int, capacity: int) -> None:
        of = c["linear_attn_config"]
        self.heads, self.width = of["num_heads"], of["head_dim"]
        self.eps, self.lower_bound = c["rms_norm_eps"], of["gate_lower_bound"]
        size = self.heads * self.width
        parts = [t[at + n + ".weight"] for n in ("q_proj", "k_proj", "v_proj", "f_a_proj", "b_proj", "g_proj")]
        self.projection, self.sizes = torch.cat(parts), [3 * size, *(len(p) for p in parts[3:])]
        self.convolution = torch.cat([t[f"{at}{n}_conv1d.weight"] for n in "qkv"])
        self.f_b, self.o = t[at + "f_b_proj.weight"], t[at + "o_proj.weight"]
        self.dt_bias = t[at + "dt_bias"]
        self.rate = t[at + "A_log"][: self.heads].exp().view(-1, 1, 1)
        self.norm = t[at + "o_norm.weight"]
        self.window = torch.zeros(sequences, 3 * size, self.convolution.shape[-1] - 1)
        self.state = torch.zeros(sequences, self.heads, self.width, self.width)

    def reset(self) -> None:
        """Forgets all tokens."""
        self.window.zero_()
        self.state.zero_()

    def _by_head(self, x: Tensor) -> Tensor:
        """[B, T, N·D] -> [B, N, T, D]"""
        return x.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def __call__(self, x: Tensor, position: Tensor | None) -> Tensor:
        """position: none for a prompt, else of the one token."""
        qkv, f_a, beta, gate = F.linear(x, self.projection).split(self.sizes, dim=-1)
        padded = torch.cat((self.window, qkv.transpose(1, 2)), dim=-1)
        self.window.copy_(padded[..., -self.window.shape[-1] :])
        mixed = F.silu(F.conv1d(padded, self.convolution, groups=len(self.convolution))).transpose(1, 2)
        q, k, v = (self._by_head(y) for y in mixed.chunk(3, dim=-1))
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * self.width**-0.5
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        log_decay = self.lower_bound * torch.sigmoid(self.rate * self._by_head(F.linear(f_a, self.f_b, self.dt_bias)))
        run = kda.chunked if position is None else kda.recurrent
        out = run(q, k, v, log_decay, torch.sigmoid(beta).transpose(1, 2), self.state).transpose(1, 2)
        gated = rms_norm(out, self.norm, self.eps).flatten(-2) * torch.sigmoid(gate)
        return F.linear(gated, self.o)


class LatentAttention:
    """Gated latent attention without positions, with a cache of keys and values [B, N, capacity, ·]."""

    EPS = 1e-6

    def __init__(self, t: Tensors, at: str, c: dict, sequences: int, capacity: int) -> None:
        self.heads, self.rank = c["num_attention_heads"], c["kv_lora_rank"]
        self.nope, self.rope, self.v_dim = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        parts = [t[at + n + ".weight"] for n in ("q_a_proj", "kv_a_proj_with_mqa", "g_proj")]
        self.projection = torch.cat(parts)
        self.sizes = [len(parts[0]), self.rank, self.rope, len(parts[2])]
        self.q_norm, self.kv_norm = t[at + "q_a_layernorm.weight"], t[at + "kv_a_layernorm.weight"]
        self.q_b, self.kv_b, self.o = (t[at + n + ".weight"] for n in ("q_b_proj", "kv_b_proj", "o_proj"))
        self.keys = torch.zeros(sequences, self.heads, capacity, self.nope + self.rope)
        self.values = torch.zeros(sequences, self.heads, capacity, self.v_dim)

    def reset(self) -> None:
        """What is not seen needs no forgetting."""

    def __call__(self, x: Tensor, position: Tensor | None) -> Tensor:
        """position: none for a prompt, else of the one token."""
        q_a, latent, k_rope, gate = F.linear(x, self.projection).split(self.sizes, dim=-1)
        q = F.linear(rms_norm(q_a, self.q_norm, self.EPS), self.q_b).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        kv = F.linear(rms_norm(latent, self.kv_norm, self.EPS), self.kv_b)
        k_nope, v = kv.unflatten(-1, (self.heads, -1)).transpose(1, 2).split([self.nope, self.v_dim], dim=-1)
        k = torch.cat((k_nope, k_rope.unsqueeze(1).expand(-1, self.heads, -1, -1)), dim=-1)
        if position is None:
            self.keys[:, :, : k.shape[2]] = k
            self.values[:, :, : v.shape[2]] = v
            out = attention(q, k, v, causal=True)
        else:
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            seen = torch.arange(self.keys.shape[2]) <= position
            out = attention(q, self.keys, self.values, seen.view(1, 1, 1, -1))
        return F.linear(out.transpose(1, 2).flatten(-2) * torch.sigmoid(gate), self.o)


class DenseMLP:
    """SiTU MLP."""

    def __init__(self, t: Tensors, at: str, c: dict) -> None:
        self.gate_up = torch.cat((t[at + "gate_proj.weight"], t[at + "up_proj.weight"]))
        self.down = t[at + "down_proj.weight"]
        self.betas = c["activation_situ_beta"], c["activation_situ_linear_beta"]

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(situ(gate, up, *self.betas), self.down)


class LatentMoE:
    """Routed experts in a narrower latent space, and a shared one at full width."""

    def __init__(self, t: Tensors, at: str, c: dict) -> None:
        self.chosen, self.eps = c["num_experts_per_token"], c["rms_norm_eps"]
        self.scale, self.renormalize = c["routed_scaling_factor"], c["moe_renormalize"]
        self.betas = c["activation_situ_beta"], c["activation_situ_linear_beta"]
        expert = [f"{at}experts.{e}." for e in range(c["num_experts"])]
        self.gate_up = torch.stack([torch.cat((t[e + "w1.weight"], t[e + "w3.weight"])) for e in expert])
        self.down = torch.stack([t[e + "w2.weight"] for e in expert])
        self.router, self.bias = t[at + "gate.weight"], t[at + "gate.e_score_correction_bias"]
        self.into, self.out_of = t[at + "routed_expert_down_proj.weight"], t[at + "routed_expert_up_proj.weight"]
        self.norm = t[at + "routed_expert_norm.weight"]
        self.shared = DenseMLP(t, at + "shared_experts.", c)

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        scores = torch.sigmoid(F.linear(flat, self.router))
        ids = (scores + self.bias).topk(self.chosen, dim=-1).indices
        weights = scores.gather(1, ids)
        if self.renormalize:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        latent = F.linear(flat, self.into)
        few = ids.numel() < len(self.down)
        routed = (self._gathered if few else self._sorted)(latent, ids, weights * self.scale)
        return (F.linear(rms_norm(routed, self.norm, self.eps), self.out_of) + self.shared(flat)).view_as(x)

    def _gathered(self, latent: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """Few tokens: their experts' weights side by side. latent [R, L], ids and weights [R, k] -> [R, L]"""
        gate, up = (self.gate_up[ids] @ latent[:, None, :, None]).squeeze(-1).chunk(2, dim=-1)
        out = self.down[ids] @ situ(gate, up, *self.betas).unsqueeze(-1)
        return (out.squeeze(-1) * weights.unsqueeze(-1)).sum(1)

    def _sorted(self, latent: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """Many tokens: each expert's rows behind one another."""
        order = ids.flatten().argsort()
        rows = order // self.chosen
        counts = ids.flatten().bincount(minlength=len(self.down)).tolist()
        out = []
        for e, part in enumerate(latent[rows].split(counts)):
            gate, up = F.linear(part, self.gate_up[e]).chunk(2, dim=-1)
            out.append(F.linear(situ(gate, up, *self.betas), self.down[e]))
        weighted = torch.cat(out) * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(latent).index_add_(0, rows, weighted)
