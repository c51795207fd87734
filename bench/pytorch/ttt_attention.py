"""Attention of a test-time-training step: causal over the keys of step 0, and one key of each later step, at the
query's own place. One softmax over both. Twice: by its scores, and by the fused kernel.

q, keys [B, N, T, d]; values [B, N, T, v]; of steps 0, 1, … in order.
"""

from typing import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def by_scores(q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """All scores in memory, and autograd's backward."""
    length = q.shape[2]
    q = q * q.shape[-1] ** -0.5
    hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = [(q @ keys[0].transpose(-1, -2)).masked_fill(hidden, -torch.inf)]
    scores += [(q * k).sum(-1, keepdim=True) for k in keys[1:]]
    weights = torch.cat(scores, dim=-1).softmax(-1)
    out = weights[..., :length] @ values[0]
    for s, v in enumerate(values[1:]):
        out = out + weights[..., length + s, None] * v
    return out


class _Fused(torch.autograd.Function):
    """The kernel that SDPA uses on a CPU, for the keys of step 0; what it gives is merged with the later steps' by the
    logarithms of both sums. Its backward is right for part of a softmax when it is given the whole one's result and
    logarithm. Keys and values are equally wide here."""

    @staticmethod
    def forward(ctx, q: Tensor, *keys_values: Tensor) -> Tensor:
        steps = len(keys_values) // 2
        keys, values = keys_values[:steps], keys_values[steps:]
        scale = q.shape[-1] ** -0.5
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, keys[0], values[0], 0.0, True, scale=scale
        )
        if steps > 1:
            scores = torch.stack([(q * k).sum(-1) * scale for k in keys[1:]])
            total = torch.logaddexp(lse, scores.logsumexp(0))
            out = out * (lse - total).exp().unsqueeze(-1)
            for s, v in zip((scores - total).exp(), values[1:]):
                out = out + s.unsqueeze(-1) * v
            lse = total
        ctx.save_for_backward(q, out, lse, *keys_values)
        return out

    @staticmethod
    def backward(ctx, d_out: Tensor) -> tuple[Tensor, ...]:
        q, out, lse, *keys_values = ctx.saved_tensors
        steps = len(keys_values) // 2
        keys, values = keys_values[:steps], keys_values[steps:]
        scale = q.shape[-1] ** -0.5
        d_q, d_k, d_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_out, q, keys[0], values[0], out, lse, 0.0, True, scale=scale
        )
        d_keys, d_values = [d_k], [d_v]
        if steps > 1:
            delta = (d_out * out).sum(-1, keepdim=True)
        for k, v in zip(keys[1:], values[1:]):
            weight = ((q * k).sum(-1, keepdim=True) * scale - lse.unsqueeze(-1)).exp()
            d_score = weight * ((d_out * v).sum(-1, keepdim=True) - delta) * scale
            d_q = d_q + d_score * k
            d_keys.append(d_score * q)
            d_values.append(weight * d_out)
        return d_q, *d_keys, *d_values


def fused(q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """No scores of a whole row of keys in memory."""
    width = values[0].shape[-1]
    padded = [F.pad(v, (0, q.shape[-1] - width)) for v in values]
    return _Fused.apply(q, *keys, *padded)[..., :width]


VARIANTS = {"scores": by_scores, "fused": fused}
