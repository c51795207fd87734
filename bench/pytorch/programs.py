"""The programs that are compared, each a process that steps when it is told to."""

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OURS = "k3spec"
TARGET_CASES = ("prefill", "decode")
APART = ("eagle3-k3",)
"""Cases of which the memory holds one program at a time."""


def modes_of(case: str, modes: list[str]) -> list[str]:
    """Of the modes asked for, those that a case has: `fused` is of EAGLE-3's attention, a prompt is not compiled."""
    fits = [m for m in modes if case.startswith("eagle3") or "fused" not in m]
    return [m for m in fits if case != "prefill" or m != "compile"]


class Program:
    """A long-lived process."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.about = self._read()
        self.answers: list[dict] = []

    def _read(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: ended with {self._process.wait()}: {self._process.args}")
        return json.loads(line)

    def step(self) -> dict:
        """One step; its answer is kept, too."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.answers.append(self._read())
        return self.answers[-1]

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Maker:
    """Starts programs."""

    def __init__(self, binaries: Path, python: str) -> None:
        self.binaries, self.python = binaries.resolve(), python

    def ours(self, case: str, threads: int, size: tuple[int, int] | None = None) -> Program:
        """k3spec's. size: sequences and their length, where they are not the case's own"""
        which = "bench_target_step" if case in TARGET_CASES else "bench_draft_step"
        command = [str(self.binaries / which), case, str(threads)]
        return Program(OURS, command + [str(n) for n in size or ()])

    def twin(self, about: dict, mode: str) -> Program:
        """PyTorch's, of what k3spec's said of itself."""
        script = "target_worker.py" if about["case"] in TARGET_CASES else "draft_worker.py"
        command = [self.python, str(HERE / script), json.dumps(about)]
        command += ["--compile"] if mode.startswith("compile") else []
        command += ["--attention", "fused"] if mode.endswith("fused") else []
        return Program(mode, command)
