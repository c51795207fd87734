#!/usr/bin/env python3
"""k3spec and plain PyTorch at the same work, in turns. See README.md.

    compare.py --binaries BUILD/bench --check
    compare.py --binaries BUILD/bench --json figures.json
    compare.py --binaries BUILD/bench --sweep
"""

import argparse
import json
import os
import platform
import sys
from contextlib import ExitStack
from pathlib import Path

import sweep
from programs import APART, OURS, Maker, Program, modes_of
from report import result, table

CASES = [
    "eagle3-128", "eagle3-512", "eagle3-512:1x2048", "eagle3-512-wide", "eagle3-512-wide:1x2048",
    "dflash-128", "dflash-512", "dspark-128", "dspark-512", "prefill", "prefill:1x192", "decode",
]  # fmt: skip
"""A case, or one with other sequences and their length. `eagle3-k3` is run when it is named."""
MODES = ["eager", "compile", "eager-fused", "compile-fused"]
TOLERANCE = 1e-4


def size_of(case: str) -> tuple[str, tuple[int, int] | None]:
    """`name:SxT` -> its name, and (S, T)."""
    name, _, size = case.partition(":")
    if not size:
        return name, None
    sequences, length = size.split("x")
    return name, (int(sequences), int(length))


def _steps(programs: list[Program], repeats: int, warmups: int) -> None:
    for _ in range(warmups + repeats):
        for program in programs:
            program.step()


def measure(make: Maker, case: str, threads: int, args: argparse.Namespace) -> list[dict]:
    """All programs of a case, a step of each in turn; those of which the memory holds one, one after the other."""
    name, size = size_of(case)
    modes = modes_of(name, args.modes)
    with ExitStack() as running:
        ours = make.ours(name, threads, size)
        programs = [ours]
        if name in APART:
            with ours:
                _steps([ours], args.repeats, args.warmups)
            for mode in modes:
                with make.twin(ours.about, mode) as twin:
                    _steps([twin], args.repeats, args.warmups)
                    programs.append(twin)
        else:
            running.enter_context(ours)
            programs += [running.enter_context(make.twin(ours.about, mode)) for mode in modes]
            _steps(programs, args.repeats, args.warmups)
    return [result(case, threads, ours.about, p.name, p.answers[args.warmups :]) for p in programs]


def differences(own: dict, other: dict) -> list[str]:
    """What of two answers is not the same."""
    found = []
    for key in own.keys() - {"seconds", "max_rss_kib"}:
        a, b = own[key], other[key]
        if isinstance(a, list):
            same = a == b
        else:
            same = abs(a - b) <= TOLERANCE * abs(a)
        if not same:
            found.append(f"{key}: {a} and {b}")
    return found


def check(make: Maker, case: str, threads: int, args: argparse.Namespace) -> bool:
    """Two steps: the loss and the gradient's norm (the second's are made by the first's update too), or a target's
    tokens and the norm of its logits."""
    name, size = size_of(case)
    sound = True
    with make.ours(name, threads, size) as ours:
        _steps([ours], 2, 0)
    for mode in modes_of(name, args.modes):
        with make.twin(ours.about, mode) as twin:
            _steps([twin], 2, 0)
        found = [d for own, other in zip(ours.answers, twin.answers) for d in differences(own, other)]
        sound = sound and not found
        shown = {k: (own, twin.answers[0][k]) for k, own in ours.answers[0].items() if k in ("loss", "grad_norm")}
        print(f"{case} {mode}: " + ("; ".join(found) or f"the same {shown or 'tokens'}"), flush=True)
    return sound


def arguments() -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(description="k3spec and plain PyTorch at the same work, in turns")
    parser.add_argument("--binaries", type=Path, required=True, help="folder of bench_draft_step and bench_target_step")
    parser.add_argument("--python", default=sys.executable, help="one that has torch; default: this one")
    parser.add_argument("--cases", nargs="+", default=CASES, help="NAME or NAME:SEQUENCESxLENGTH")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--warmups", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="compare results instead of times")
    parser.add_argument("--sweep", action="store_true", help="how k3spec's cost grows instead")
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    return parser.parse_args()


def main() -> int:
    """0 unless a check fails."""
    args = arguments()
    make = Maker(args.binaries, args.python)
    if args.check:
        return 0 if all([check(make, case, args.threads[0], args) for case in args.cases]) else 1
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    if args.sweep:
        figures = [sweep.run(make, threads, args.repeats) for threads in args.threads]
    else:
        figures = []
        for case in args.cases:
            for threads in args.threads:
                rows = measure(make, case, threads, args)
                figures += rows
                print(table(rows, OURS), flush=True)
        print("\n" + table(figures, OURS))
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
