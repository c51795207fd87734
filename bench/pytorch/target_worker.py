"""The PyTorch side of bench/target_step.cpp.

    target_worker.py ABOUT [--compile]

ABOUT is the first line that bench_target_step prints. --compile: the step of decoding; a prompt's forward, whose
experts have as many rows as the text says, stays as it is.
"""

import argparse
import json
from pathlib import Path
from typing import Callable

import torch
from torch import Tensor

from serving import serve, use_threads
from target import Target

DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "k3-tiny"


def text(*shape: int) -> Tensor:
    """The first bytes of the held-out text."""
    count = torch.Size(shape).numel()
    return torch.tensor(list((DATA / "heldout.txt").read_bytes()[:count])).view(shape)


def prefill(about: dict) -> Callable[[], dict]:
    """A forward with logits and their largest, of every position."""
    target = Target(DATA, about["sequences"], about["length"])
    ids = text(about["sequences"], about["length"])
    said = False

    @torch.inference_mode()
    def step() -> dict:
        nonlocal said
        logits = target.forward(ids)
        tokens = logits.argmax(-1)
        if said:
            return {}
        said = True
        return {"logits_norm": logits.double().norm().item(), "tokens": tokens.flatten().tolist()}

    return step


def decode(about: dict, compiled: bool) -> Callable[[], dict]:
    """Greedy decoding behind a prompt."""
    target = Target(DATA, 1, about["prompt"] + about["new_tokens"])
    prompt = text(1, about["prompt"])
    forward = torch.compile(target.forward, dynamic=False) if compiled else target.forward

    @torch.inference_mode()
    def step() -> dict:
        token = target.forward(prompt)[:, -1:].argmax(-1)
        tokens = [token]
        for position in range(about["prompt"], about["prompt"] + about["new_tokens"] - 1):
            token = forward(token, torch.tensor([position])).argmax(-1)
            tokens.append(token)
        return {"tokens": torch.cat(tokens, dim=1).flatten().tolist()}

    return step


def main() -> None:
    """Serves the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("about", type=json.loads)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    use_threads(args.about["threads"])
    serve(prefill(args.about) if args.about["kind"] == "prefill" else decode(args.about, args.compile))


if __name__ == "__main__":
    main()
