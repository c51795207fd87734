"""DSpark: slot k of a block predicts the token at anchor + k + 1, with a vanilla Markov head and a confidence head that
reads its rows, too."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import blocks
import hashing
from layers import linear

CE_ALPHA, L1_ALPHA, CONFIDENCE_ALPHA = 0.1, 0.9, 1.0


class MarkovHead(nn.Module):
    """Adds W₂·W₁[previous token] to the logits."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(c["vocab_size"], c["markov_rank"])
        self.markov_w2 = linear(c["markov_rank"], c["vocab_size"])


class ConfidenceHead(nn.Module):
    """A logit of the chance that a slot is accepted."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.proj = nn.Linear(c["hidden_size"] + c["markov_rank"], 1)


class DSpark(blocks.Backbone):
    """The draft; called, it gives the loss of a batch."""

    def __init__(self, c: dict) -> None:
        super().__init__(c)
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.lm_head = linear(c["hidden_size"], c["vocab_size"])
        self.embed_tokens.weight.requires_grad_(False)
        self.lm_head.weight.requires_grad_(False)
        self.markov_head, self.confidence_head = MarkovHead(c), ConfidenceHead(c)

    def forward(self, ids: Tensor, target_hidden: Tensor, anchors: Tensor, last_hidden: Tensor) -> Tensor:
        """ids [B, S], target_hidden [B, S, layers·H], anchors [B, A], last_hidden [B, S, H] of the target. Slots whose
        token would stand behind the sequence's end weigh nothing."""
        size, length = self.c["block_size"], ids.shape[1]
        noise = self.embed_tokens(blocks.noise_ids(ids, anchors, self.c))
        hidden = self.states(noise, target_hidden, anchors)
        depth = torch.arange(size)
        labels = anchors[..., None] + 1 + depth
        weights = ((labels < length) * torch.exp(-depth / self.c["gamma"])).flatten()
        targets = blocks.gather_positions(ids, labels)
        previous = torch.cat((ids.gather(1, anchors)[..., None], targets[..., :-1]), dim=-1)

        rows = self.markov_head.markov_w1(previous).flatten(0, 2)
        hidden = hidden.flatten(0, 1)
        logits = self.lm_head(hidden) + self.markov_head.markov_w2(rows)
        confidence = self.confidence_head.proj(torch.cat((hidden, rows), dim=-1)).squeeze(-1)
        p = self._teacher(last_hidden, labels.clamp(max=length - 1) - 1)

        log_q = logits.log_softmax(-1)
        cross_entropy = F.nll_loss(log_q, targets.flatten(), reduction="none")
        distance = (log_q.exp() - p).abs().sum(-1)
        acceptance = (1 - 0.5 * distance.detach()).clamp(0, 1)
        bce = F.binary_cross_entropy_with_logits(confidence, acceptance, reduction="none")
        losses = CE_ALPHA * cross_entropy + L1_ALPHA * distance + CONFIDENCE_ALPHA * bce
        return blocks.weighted_mean(losses, weights)

    @torch.no_grad()
    def _teacher(self, last_hidden: Tensor, positions: Tensor) -> Tensor:
        """last_hidden [B, S, H] at positions [B, A, b] -> the target's probabilities [B·A·b, V]"""
        index = positions.flatten(1)[..., None].expand(-1, -1, last_hidden.shape[-1])
        return self.lm_head(last_hidden.gather(1, index).flatten(0, 1)).softmax(-1)


def inputs(c: dict) -> tuple[Tensor, ...]:
    """In forward's order."""
    last = hashing.values("input.last_hidden", c["sequences"], c["length"], c["hidden_size"])
    return (*blocks.inputs(c, c["length"] - 1), last)
