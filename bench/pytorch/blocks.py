"""What DFlash and DSpark share: who sees whom, the backbone, the slots' targets.

B sequences of S positions, A blocks of b slots each, Q = A·b.
"""

import torch
from torch import Tensor, nn

import hashing
from layers import MLA, RMSNorm, SituMLP, attention, linear


def visibility(anchors: Tensor, length: int, c: dict) -> Tensor:
    """anchors [B, A] -> [B, 1, Q, S + Q]: the context before a block's anchor, nearer than the window, and the block's
    own slots, if causal those up to the query's."""
    size = c["block_size"]
    slots = torch.arange(anchors.shape[1] * size)
    block, offset = slots // size, slots % size
    anchor = anchors.repeat_interleave(size, dim=1)[..., None]
    position = torch.arange(length)
    context = position < anchor
    if c["sliding_window"] is not None:
        context = context & (anchor + offset[:, None] - position < c["sliding_window"])
    own = block[:, None] == block
    if c["block_causal"]:
        own = own & (offset <= offset[:, None])
    return torch.cat((context, own.expand(anchors.shape[0], -1, -1)), dim=-1).unsqueeze(1)


def noise_ids(ids: Tensor, anchors: Tensor, c: dict) -> Tensor:
    """[B, Q]: the anchor's token, and masks after it."""
    shown = ids.new_full((*anchors.shape, c["block_size"]), c["mask_token_id"])
    shown[..., 0] = ids.gather(1, anchors)
    return shown.flatten(1)


def gather_positions(x: Tensor, positions: Tensor) -> Tensor:
    """x [B, S], positions [B, A, b] -> [B, A, b]; those past the end read the last."""
    return x.gather(1, positions.clamp(max=x.shape[1] - 1).flatten(1)).view(positions.shape)


class Layer(nn.Module):
    """Attention of the slots to context and slots, and an MLP."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = MLA(hidden, c)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = SituMLP(hidden, c["intermediate_size"], c)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """x [B, Q, H], context [B, S, H] -> [B, Q, H]"""
        normed = self.input_layernorm(x)
        k, v = self.self_attn.keys_values(torch.cat((context, normed), dim=1))
        x = x + self.self_attn.output(attention(self.self_attn.queries(normed), k, v, mask), normed)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    """Drafts derive from it: its tensors stand beside theirs in a checkpoint."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.c = c
        self.fc = linear(c["num_target_layers"] * hidden, hidden)
        self.hidden_norm = RMSNorm(hidden, eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_draft_layers"]))
        self.norm = RMSNorm(hidden, eps)

    def states(self, noise: Tensor, target_hidden: Tensor, anchors: Tensor) -> Tensor:
        """noise [B, Q, H], target_hidden [B, S, layers·H] -> [B, Q, H]"""
        mask = visibility(anchors, target_hidden.shape[1], self.c)
        context = self.hidden_norm(self.fc(target_hidden))
        x = noise
        for layer in self.layers:
            x = layer(x, context, mask)
        return self.norm(x)


def weighted_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """Σ w·l / (Σ w + 1e-6)"""
    return (losses * weights).sum() / (weights.sum() + 1e-6)


def inputs(c: dict, positions: int) -> tuple[Tensor, ...]:
    """ids [B, S], target_hidden [B, S, layers·H], anchors [B, A], as bench/draft_step.cpp has them.
    positions: how many of a sequence may be anchors"""
    batch, length, count = c["sequences"], c["length"], c["anchors"]
    anchors = torch.arange(count) * positions // count
    width = c["num_target_layers"] * c["hidden_size"]
    return (
        hashing.ids("input.ids", c["vocab_size"], batch, length),
        hashing.values("input.target_hidden", batch, length, width),
        anchors.expand(batch, -1).contiguous(),
    )
