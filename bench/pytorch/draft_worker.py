"""The PyTorch side of bench/draft_step.cpp: a training step for each line of input, a line of JSON for each step.

    draft_worker.py ABOUT [--compile] [--attention scores|fused]

ABOUT is the first line that bench_draft_step prints: what is run.
"""

import argparse
import json
from typing import Callable

import torch
from torch import nn

import dflash
import dspark
import eagle3
import hashing
from serving import serve, use_threads

DRAFTS: dict[str, tuple[type[nn.Module], Callable]] = {
    "eagle3": (eagle3.Eagle3, eagle3.inputs),
    "dflash": (dflash.DFlash, dflash.inputs),
    "dspark": (dspark.DSpark, dspark.inputs),
}


def make_draft(kind: type[nn.Module], c: dict) -> nn.Module:
    """A draft with hashed weights, its memory touched once."""
    with torch.device("meta"):
        draft = kind(c)
    draft.to_empty(device="cpu")
    hashing.fill_module(draft)
    return draft


def make_step(c: dict, compiled: bool) -> Callable[[], dict]:
    """A training step on the case's inputs -> its loss and its gradient's norm before clipping."""
    kind, inputs = DRAFTS[c["kind"]]
    draft = make_draft(kind, c)
    batch = inputs(c)
    loss_of = torch.compile(draft, dynamic=False) if compiled else draft
    trained = [p for p in draft.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, fused=True)

    def step() -> dict:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        if c["updates"]:
            norm = nn.utils.clip_grad_norm_(trained, 0.5)
            optimizer.step()
        else:
            norm = nn.utils.get_total_norm([p.grad for p in trained])
        return {"loss": loss.item(), "grad_norm": norm.item()}

    return step


def main() -> None:
    """Serves the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("about", type=json.loads)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--attention", default="scores")
    args = parser.parse_args()
    about = {**args.about, "attention": args.attention}
    use_threads(about["threads"])
    serve(make_step(about, args.compile))


if __name__ == "__main__":
    main()
