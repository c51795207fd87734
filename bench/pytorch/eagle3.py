"""EAGLE-3 with Kimi K3's attention block, and its loss over the steps of test-time training."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hashing
from layers import MLA, RMSNorm, SituMLP, linear
from ttt_attention import VARIANTS

DECAY = 0.8
"""Of a step's weight in the loss to that of the step before."""


class Layer(nn.Module):
    """One layer over [embedding ‖ hidden state]."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.input_layernorm, self.hidden_norm = RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.self_attn = MLA(2 * hidden, c)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = SituMLP(hidden, c["intermediate_size"], c)
        self.attend = VARIANTS[c.get("attention", "scores")]

    def forward(self, embeds: Tensor, hidden: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        """embeds, hidden [B, T, H] -> [B, T, H]; adds this step's to keys and values."""
        fused = torch.cat((self.input_layernorm(embeds), self.hidden_norm(hidden)), dim=-1)
        k, v = self.self_attn.keys_values(fused)
        keys.append(k)
        values.append(v)
        hidden = hidden + self.self_attn.output(self.attend(self.self_attn.queries(fused), keys, values), fused)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Model(nn.Module):
    """All but the head, named as in a checkpoint."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden = c["hidden_size"]
        self.embed_tokens = nn.Embedding(c["vocab_size"], hidden)
        self.embed_tokens.weight.requires_grad_(False)
        self.fc = linear(3 * hidden, hidden)
        self.layers = nn.ModuleList([Layer(c)])
        self.norm = RMSNorm(hidden, c["rms_norm_eps"])


def soft_cross_entropy(logits: Tensor, p: Tensor) -> Tensor:
    """-Σ p log softmax(logits), where p sums to 1. [..., V] -> [...]"""
    return logits.logsumexp(-1) - torch.linalg.vecdot(p, logits)


class Eagle3(nn.Module):
    """The draft; called, it gives the loss of a batch."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.model = Model(c)
        self.lm_head = linear(c["hidden_size"], c["draft_vocab_size"])
        self.steps = c["ttt_steps"]

    def forward(self, ids: Tensor, aux: Tensor, last_hidden: Tensor, selected_head: Tensor, counts: Tensor) -> Tensor:
        """ids [B, T], aux [B, T, 3H], last_hidden [B, T, H] of the target, selected_head [Vd, H] its head's rows that
        the draft vocabulary selects, counts [B, T] 1.0 where a position is supervised -> the loss.

        Step k predicts at position t what step 0 predicts at t + k: the last k positions have nothing to predict."""
        length = ids.shape[1]
        p = (last_hidden @ selected_head.T).softmax(-1)
        hidden = self.model.fc(aux)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        total = hidden.new_zeros(())
        for k in range(self.steps):
            embeds = self.model.embed_tokens(F.pad(ids[:, k:], (0, k)))
            hidden = self.model.layers[0](embeds, hidden, keys, values)
            logits = self.lm_head(self.model.norm(hidden[:, : length - k]))
            weight = counts[:, k:]
            loss = (soft_cross_entropy(logits, p[:, k:]) * weight).sum() / weight.sum().clamp_min(1.0)
            total = total + DECAY**k * loss
        return total / sum(DECAY**k for k in range(self.steps))


def inputs(c: dict) -> tuple[Tensor, ...]:
    """Those that bench/draft_step.cpp has, in forward's order."""
    batch, length, hidden, vocabulary = c["sequences"], c["length"], c["hidden_size"], c["draft_vocab_size"]
    top = hashing.ids("input.teacher_top", vocabulary + vocabulary // 8, batch, length)
    counts = (top < vocabulary).float()
    counts[:, -1] = 0
    return (
        hashing.ids("input.ids", c["vocab_size"], batch, length),
        hashing.values("input.aux", batch, length, 3 * hidden),
        hashing.values("input.last_hidden", batch, length, hidden),
        hashing.head("input.selected_head", vocabulary, hidden),
        counts,
    )
