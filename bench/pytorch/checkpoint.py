"""Reads a Kimi K3 checkpoint: safetensors, BF16 and MXFP4 to float32."""

import json
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "U8": torch.uint8}
MXFP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All of a file's tensors."""
    data = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: _tensor(data, begin, entry) for name, entry in header.items()}


def _tensor(data: bytearray, begin: int, entry: dict) -> Tensor:
    """A copy of an entry's bytes, which may stand where no number of their kind can."""
    first, last = entry["data_offsets"]
    raw = torch.frombuffer(data[begin + first : begin + last], dtype=torch.uint8)
    return raw.view(DTYPES[entry["dtype"]]).view(entry["shape"])


def dequantize(packed: Tensor, scale: Tensor) -> Tensor:
    """packed uint8 [out, in/2], low nibble first, scale uint8 [out, in/32], 2^(s - 127) -> float32 [out, in]"""
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    blocks = MXFP4[nibbles.long()].unflatten(-1, (-1, 32))
    return (blocks * torch.exp2(scale.float() - 127)[..., None]).flatten(-2)


def load(folder: Path) -> tuple[dict, dict[str, Tensor]]:
    """The text model's config, and its tensors in float32, named from `model.` or `lm_head.` on."""
    config = json.loads((folder / "config.json").read_text())
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("model*.safetensors")):
        tensors |= {name.removeprefix("language_model."): t for name, t in read_safetensors(path).items()}
    for name in [n for n in tensors if n.endswith("weight_packed")]:
        scale = tensors.pop(name.replace("packed", "scale"))
        tensors[name.removesuffix("_packed")] = dequantize(tensors.pop(name), scale)
    return config.get("text_config", config), {name: t.float() for name, t in tensors.items()}
