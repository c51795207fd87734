#pragma once
/// \file
/// The results as a page of Markdown and as lines of JSON.
/// defines: bench::page, bench::print_json

#include <filesystem>
#include <string>

#include <k3spec/backend/cpu/packet.hpp>

#include "../worker.hpp"
#include "results.hpp"

namespace k3spec::bench {

inline std::string time_text(double seconds) {
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.1f} us", seconds * 1e6);
}

inline std::string page_beginning(const Results& r) {
  std::string out = "# Roofline\n\n";
  out += fmt::format(
      "What the library's paths reach of what the machine can do, all measured in the same run of `bench_roofline`, in "
      "turns, medians of nine rounds. Made on {}; {}; packets of {} floats.\n\n",
      r.date, r.processor, Packet<float>::width);
  out +=
      "A path of f flops (a multiply-add is two, any other operation on a float one) that has to move b bytes (each "
      "number once) can be no faster than min(peak, bandwidth · f / b) flops a second: its roof. Bandwidth is that of "
      "reading where nearly all bytes are read, else that of copying, read and written bytes together; of memory, "
      "where "
      "the operands are more than the caches hold, or of the second-level cache. A path may pass memory's: some of its "
      "bytes come from caches between. Of several ways to read and to copy the fastest counts, packet by packet or the "
      "C library's memcpy.\n\n";
  out += "| threads | multiply-adds, GFLOP/s | memory read, GB/s | memory copy | cache read | cache copy |\n";
  out += "| --- | --- | --- | --- | --- | --- |\n";
  for (std::size_t t = 0; t < r.threads.size(); ++t) {
    const Roofs& x = r.roofs[t];
    out += fmt::format("| {} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", r.threads[t], x.peak / 1e9,
                       x.memory_read / 1e9, x.memory_copy / 1e9, x.cache_read / 1e9, x.cache_copy / 1e9);
  }
  return out;
}

inline std::string path_rows(const Results& r, std::size_t i, int number) {
  std::string out;
  const Case& path = r.paths[i];
  for (std::size_t t = 0; t < r.threads.size(); ++t) {
    const Standing s = r.standing(t, i);
    const std::string first = t == 0 ? fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.3g} ", number, path.name,
                                                   path.flops / 1e9, path.bytes / 1e6, path.intensity())
                                     : "| | | | | ";
    out += first + fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.2f} | {} |\n", r.threads[t], time_text(s.seconds),
                               s.rate / 1e9, path.bytes / s.seconds / 1e9, s.of_roof(), s.verdict());
  }
  return out;
}

inline std::string path_tables(const Results& r) {
  std::string out, group;
  int number = 0;
  for (std::size_t i = 0; i < r.paths.size(); ++i) {
    const Case& path = r.paths[i];
    if (!path.is_drawn) continue;
    if (path.group != group) {
      group = path.group;
      out += fmt::format("\n## {}\n\n", group);
      out += "| | path | Gflop | MB | flop/byte | threads | time | GFLOP/s | GB/s | of its roof | what bounds it |\n";
      out += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    }
    out += path_rows(r, i, ++number);
  }
  return out;
}

inline std::string claim_table(const Results& r) {
  std::string out = "\n## What we want\n\n| figure | wanted ";
  for (const int n : r.threads) out += fmt::format("| {} thread{} ", n, n == 1 ? "" : "s");
  out += "|\n| --- | --- ";
  for (std::size_t t = 0; t < r.threads.size(); ++t) out += "| --- ";
  out += "|\n";
  for (const Claim& c : claims(r)) {
    out += fmt::format("| {} | {} {} ", c.what, c.at_least ? "at least" : "at most", c.wanted);
    for (const double x : c.found) out += fmt::format("| {:.2f}{} ", x, c.holds(x) ? "" : ", not reached");
    out += "|\n";
  }
  return out;
}

/// \param picture  its file name, beside the page
inline std::string page(const Results& r, const std::filesystem::path& picture) {
  constexpr bool wide = Packet<float>::width == 16;
  std::string out = page_beginning(r);
  out += fmt::format("\n![The paths under their roofs]({})\n\n", picture.filename().string());
  out +=
      "Lines are roofs, in brackets their numbers of threads; points are paths, numbered as below: full with one "
      "thread, "
      "hollow with more.\n";
  out += path_tables(r) + claim_table(r);
  out += fmt::format(
      "\n## Again\n\n```sh\ncmake -B build{} && cmake --build build --target bench_roofline\n"
      "OPENBLAS_CORETYPE={} build/bench/bench_roofline --page bench/roofline.md --picture bench/roofline.svg\n```\n\n"
      "The machine must have nothing else to do. OpenBLAS has kernels for packets as wide where OPENBLAS_CORETYPE says "
      "so; those that it had are named above.\n",
      wide ? " -D K3SPEC_MARCH=x86-64-v4" : "", wide ? "SkylakeX" : "Haswell");
  return out;
}

inline void print_json(const Results& r) {
  for (std::size_t t = 0; t < r.threads.size(); ++t) {
    const Roofs& x = r.roofs[t];
    Json roofs;
    roofs.add("threads", r.threads[t]).add("peak", x.peak).add("memory_read", x.memory_read);
    roofs.add("memory_copy", x.memory_copy).add("cache_read", x.cache_read).add("cache_copy", x.cache_copy).print();
    for (std::size_t i = 0; i < r.paths.size(); ++i) {
      const Case& path = r.paths[i];
      const Standing s = r.standing(t, i);
      Json line;
      line.add("group", path.group).add("path", path.name).add("threads", r.threads[t]).add("flops", path.flops);
      line.add("bytes", path.bytes).add("seconds", s.seconds).add("of_peak", s.of_peak);
      line.add("of_bandwidth", s.of_bandwidth).add("of_roof", s.of_roof()).add("bound", s.verdict()).print();
    }
  }
  for (const Claim& c : claims(r)) {
    Json line;
    line.add("figure", c.what).add(c.at_least ? "at_least" : "at_most", c.wanted).add("found", c.found).print();
  }
}

}  // namespace k3spec::bench
