"""Kimi delta attention: a gated delta rule over a matrix of state for each head, in chunks or a token at a time.

B sequences, N heads, T tokens, D the heads' width; q, k, v, log_decay [B, N, T, D], beta [B, N, T], state [B, N, D, D].
    S ← e^g ⊙ S;  S ← S + β k (v − Sᵀk)ᵀ;  o = Sᵀq
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 16
"""Decays of a chunk's tokens multiply to e^(-5 · 16) at least, whose inverse is a float32, too."""


def recurrent(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor) -> Tensor:
    """One token: T = 1. Changes the state. -> [B, N, 1, D]"""
    state.mul_(log_decay.exp().transpose(-1, -2))
    error = (v - k @ state) * beta.unsqueeze(-1)
    state.add_(k.transpose(-1, -2) @ error)
    return q @ state


def chunked(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor) -> Tensor:
    """All tokens. Within a chunk the rule is a triangular system, and chunks hand on their states. Changes the state.
    -> [B, N, T, D]"""
    tokens = q.shape[2]
    padding = -tokens % CHUNK
    beta = F.pad(beta, (0, padding)).unflatten(2, (-1, CHUNK)).unsqueeze(-1)
    q, k, v, log_decay = (
        F.pad(x, (0, 0, 0, padding)).unflatten(2, (-1, CHUNK)) for x in (q, k, v, log_decay)
    )  # [B, N, chunks, CHUNK, D]
    decay = log_decay.cumsum(-2)
    last = decay[..., -1:, :]
    grown = (k * (-decay).exp()).transpose(-1, -2)
    q_from_start, k_from_start = q * decay.exp(), k * decay.exp()
    k_to_end = (k * (last - decay).exp()).transpose(-1, -2)
    within = (q_from_start @ grown).tril()
    system = (beta * (k_from_start @ grown)).tril(-1)
    right = beta * torch.cat((v, k_from_start), dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    from_values, from_state = solved.split(v.shape[-1], dim=-1)
    carried = last.exp().transpose(-1, -2)
    out = []
    for c in range(q.shape[2]):
        update = from_values[:, :, c] - from_state[:, :, c] @ state
        out.append(q_from_start[:, :, c] @ state + within[:, :, c] @ update)
        state.mul_(carried[:, :, c]).add_(k_to_end[:, :, c] @ update)
    return torch.cat(out, dim=2)[:, :, :tokens]
