"""Numbers of the steps, and their table."""

import math
import statistics


def quartiles(seconds: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(seconds) < 2:
        return seconds[0], seconds[0], seconds[0]
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, middle, high


def result(case: str, threads: int, about: dict, program: str, answers: list[dict]) -> dict:
    """What is kept of a program's measured steps."""
    seconds = [a["seconds"] for a in answers]
    low, middle, high = quartiles(seconds)
    return {
        "case": case, "threads": threads, "program": program, "sequences": about.get("sequences"),
        "length": about.get("length"), "median": middle, "lower_quartile": low, "upper_quartile": high,
        "max_rss_mib": answers[-1]["max_rss_kib"] / 1024, "seconds": seconds,
    }  # fmt: skip


def table(results: list[dict], ours: str) -> str:
    """Markdown; ratios are of medians and of memory to k3spec's own."""
    lines = [
        "| case | threads | program | ms (quartiles) | time / k3spec's | MiB | memory / k3spec's |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    base: dict[tuple, dict] = {(r["case"], r["threads"]): r for r in results if r["program"] == ours}
    for r in results:
        own = base[r["case"], r["threads"]]
        low, middle, high = (1e3 * r[k] for k in ("lower_quartile", "median", "upper_quartile"))
        lines.append(
            f"| {r['case']} | {r['threads']} | {r['program']} | {middle:.1f} ({low:.1f} to {high:.1f}) "
            f"| {r['median'] / own['median']:.2f} | {r['max_rss_mib']:.0f} "
            f"| {r['max_rss_mib'] / own['max_rss_mib']:.2f} |"
        )
    return "\n".join(lines)


def power_law(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """c and e of y = c·x^e, least squares of the logarithms."""
    u, v = [math.log(x) for x in xs], [math.log(y) for y in ys]
    slope, intercept = statistics.linear_regression(u, v)
    return math.exp(intercept), slope
