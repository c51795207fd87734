"""Writes dumps of plain PyTorch modules for tests/dumped_modules.cpp: dumped_modules.py DUMP_MODULE_FOLDER OUT."""

import sys

import torch

sys.path.insert(0, sys.argv[1])
from dump_module import dump  # noqa: E402


class OwnActivation(torch.nn.Module):
    """Norm, a square matrix, and mask * u * softsign(u), which no library of layers has."""

    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(8, 1e-5)
        self.proj = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x, mask):
        u = self.proj(self.norm(x))
        return mask[..., None] * u * torch.nn.functional.softsign(u)


class RMSNorm(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(1 + 0.3 * torch.randn(width)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def main():
    out = sys.argv[2]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    plain = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))
    dump(f"{out}/plain.safetensors", plain, torch.randn(7, 6))
    own, x = OwnActivation(), torch.randn(2, 5, 8)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)
    dump(f"{out}/own.safetensors", own, x, mask=mask, submodules=["norm", "proj"], seed=3)
    # The types of a checkpoint: what bfloat16 computes is off by its digits.
    dump(f"{out}/bfloat16.safetensors", plain.to(torch.bfloat16), torch.randn(7, 6).to(torch.bfloat16))


main()
