"""The protocol of bench/worker.hpp: a line of input is a step, a line of JSON what it took and gave."""

import json
import resource
import sys
import time
from typing import Callable

import torch


def use_threads(threads: int) -> None:
    """So many in each operation, and one operation at a time."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)


def serve(step: Callable[[], dict]) -> None:
    """Says that it is ready, and runs a step for each line of input."""
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        answer = step()
        answer["seconds"] = time.perf_counter() - begin
        answer["max_rss_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(answer), flush=True)
