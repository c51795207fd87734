"""Writes examples/data/mlp.safetensors in plain Python, as dump_module.py writes the MLP of README.md: mlp_dump.py OUT."""

import json
import math
import random
import struct
import sys

ROWS, WIDTH, INNER = (2, 5), 12, 20


def drawn(draw, rows, columns, deviation):
    return [[draw.gauss(0, deviation) for _ in range(columns)] for _ in range(rows)]


def product(a, b):
    """a bᵀ, the entries summed exactly"""
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in b] for row in a]


def transposed(a):
    return [list(column) for column in zip(*a)]


def tensors():
    draw, rows = random.Random(1), ROWS[0] * ROWS[1]
    x, d_y = drawn(draw, rows, WIDTH, 1), drawn(draw, rows, WIDTH, 1)
    w_gate, w_up, w_down = drawn(draw, INNER, WIDTH, 0.5), drawn(draw, INNER, WIDTH, 0.5), drawn(draw, WIDTH, INNER, 0.5)
    gate, up = product(x, w_gate), product(x, w_up)
    d_inner = product(d_y, transposed(w_down))
    inner, d_gate, d_up = ([[0.0] * INNER for _ in range(rows)] for _ in range(3))
    for r in range(rows):
        for c in range(INNER):
            s, t, v = 1 / (1 + math.exp(-gate[r][c])), math.tanh(gate[r][c] / 4), math.tanh(up[r][c] / 25)
            inner[r][c] = 4 * t * s * 25 * v
            d_gate[r][c] = d_inner[r][c] * 25 * v * ((1 - t * t) * s + 4 * t * s * (1 - s))
            d_up[r][c] = d_inner[r][c] * 4 * t * s * (1 - v * v)
    by_gate, by_up = product(d_gate, transposed(w_gate)), product(d_up, transposed(w_up))
    d_x = [[a + b for a, b in zip(*rows)] for rows in zip(by_gate, by_up)]
    weight = "{}.weight".format
    values = {
        "input.0": x, "output.0": product(inner, w_down), "d_output.0": d_y, "grad.input.0": d_x,
        "param." + weight("gate_proj"): w_gate, "param." + weight("up_proj"): w_up, "param." + weight("down_proj"): w_down,
        "grad.param." + weight("gate_proj"): product(transposed(d_gate), transposed(x)),
        "grad.param." + weight("up_proj"): product(transposed(d_up), transposed(x)),
        "grad.param." + weight("down_proj"): product(transposed(d_y), transposed(inner)),
    }
    return {name: (list(ROWS) + [WIDTH] if "put" in name else [len(m), len(m[0])], m) for name, m in values.items()}


def main():
    header, data = {}, b""
    for name, (shape, matrix) in sorted(tensors().items()):
        numbers = [number for row in matrix for number in row]
        end = len(data) + 8 * len(numbers)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), end]}
        data += struct.pack(f"<{len(numbers)}d", *numbers)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


main()
