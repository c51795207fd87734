"""How the cost of k3spec's EAGLE-3 step grows with the length of a sequence and with the draft vocabulary."""

from programs import Maker
from report import power_law, quartiles

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
VOCABULARIES = (4096, 16384, 65536, 163840)


def pairs(about: dict) -> int:
    """Queries with the keys they see, of all steps."""
    length, steps = about["length"], about["ttt_steps"]
    return about["sequences"] * sum(length * (length + 1) // 2 + k * length for k in range(steps))


def multiply_adds(about: dict) -> int:
    """Of a forward pass: those of visible pairs, those that are linear in the tokens, and the vocabulary's."""
    hidden, heads, steps = about["hidden_size"], about["num_attention_heads"], about["ttt_steps"]
    qk, v = about["qk_nope_head_dim"] + about["qk_rope_head_dim"], about["v_head_dim"]
    q_rank, kv_rank = about["q_lora_rank"], about["kv_lora_rank"]
    inputs = 2 * hidden * (q_rank + kv_rank + about["qk_rope_head_dim"] + heads * v)
    inner = q_rank * heads * qk + kv_rank * heads * (about["qk_nope_head_dim"] + v) + heads * v * hidden
    layer = inputs + inner + 3 * hidden * about["intermediate_size"]
    tokens = about["sequences"] * about["length"]
    predictions = about["sequences"] * sum(about["length"] - k for k in range(steps))
    vocabulary = (predictions + tokens) * about["draft_vocab_size"] * hidden
    return pairs(about) * heads * (qk + v) + tokens * (steps * layer + 3 * hidden * hidden) + vocabulary


def _measure(make: Maker, case: str, threads: int, size: tuple[int, int] | None, repeats: int) -> dict:
    with make.ours(case, threads, size) as program:
        program.step()
        seconds = [program.step()["seconds"] for _ in range(repeats)]
        about, rss = program.about, program.answers[-1]["max_rss_kib"] / 1024
    return {
        "case": case, "length": about["length"], "draft_vocab_size": about["draft_vocab_size"],
        "pairs": pairs(about), "multiply_adds": multiply_adds(about), "median": quartiles(seconds)[1],
        "max_rss_mib": rss, "seconds": seconds,
    }  # fmt: skip


def _show(title: str, points: list[dict], raw: str) -> dict:
    print(f"\n{title}\n\n| T | V | visible pairs | multiply-adds | ms | MiB |\n| --- | --- | --- | --- | --- | --- |")
    for p in points:
        print(
            f"| {p['length']} | {p['draft_vocab_size']} | {p['pairs']} | {p['multiply_adds']:.3g} "
            f"| {1e3 * p['median']:.1f} | {p['max_rss_mib']:.0f} |"
        )
    times = [p["median"] for p in points]
    exponents = {x: power_law([p[x] for p in points], times)[1] for x in ("multiply_adds", raw)}
    print("\nexponents of time = c·x^e: " + ", ".join(f"x = {x}: {e:.3f}" for x, e in exponents.items()), flush=True)
    return {"points": points, "exponents": exponents}


def run(make: Maker, threads: int, repeats: int) -> dict:
    """Both sweeps at k3-tiny's widths, with 5 steps and one sequence. x is the multiply-adds of a forward pass, or what
    is swept itself: a constant part makes the latter's exponent smaller."""
    lengths = [_measure(make, "eagle3-128", threads, (1, n), repeats) for n in LENGTHS]
    by_length = _show(f"Length of a sequence, {threads} threads", lengths, "length")
    vocabularies = [_measure(make, f"eagle3-v{n}", threads, None, repeats) for n in VOCABULARIES]
    by_vocabulary = _show(f"Draft vocabulary, {threads} threads", vocabularies, "draft_vocab_size")
    return {"threads": threads, "length": by_length, "vocabulary": by_vocabulary}
