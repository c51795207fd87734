"""DFlash: slot k of a block predicts the token at anchor + k. Embedding and head are the frozen target's."""

import torch
import torch.nn.functional as F
from torch import Tensor

import blocks
import hashing


class DFlash(blocks.Backbone):
    """The draft; called, it gives the loss of a batch."""

    def forward(
        self, ids: Tensor, target_hidden: Tensor, anchors: Tensor, embed_tokens: Tensor, lm_head: Tensor
    ) -> Tensor:
        """ids [B, S], target_hidden [B, S, layers·H], anchors [B, A], embed_tokens and lm_head [V, H]. Slot 0 shows the
        anchor and predicts nothing."""
        noise = F.embedding(blocks.noise_ids(ids, anchors, self.c), embed_tokens)
        hidden = self.states(noise, target_hidden, anchors).unflatten(1, (-1, self.c["block_size"]))[:, :, 1:]
        depth = torch.arange(self.c["block_size"] - 1)
        labels = anchors[..., None] + 1 + depth
        weights = (labels < ids.shape[1]) * torch.exp(-depth / self.c["gamma"])
        logits = hidden.flatten(0, 2) @ lm_head.T
        losses = F.cross_entropy(logits, blocks.gather_positions(ids, labels).flatten(), reduction="none")
        return blocks.weighted_mean(losses, weights.flatten())


def inputs(c: dict) -> tuple[Tensor, ...]:
    """In forward's order."""
    return (
        *blocks.inputs(c, c["length"] - c["block_size"] + 1),
        hashing.head("input.embed_tokens", c["vocab_size"], c["hidden_size"]),
        hashing.head("input.lm_head", c["vocab_size"], c["hidden_size"]),
    )
