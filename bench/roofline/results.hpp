#pragma once
/// \file
/// What was measured, and what we want of it.
/// defines: bench::Results, bench::Claim, bench::claims

#include <stdexcept>
#include <string>
#include <vector>

#include "case.hpp"
#include "machine.hpp"
#include "products.hpp"

namespace k3spec::bench {

/// Medians of all rounds, for each number of threads.
struct Results {
  std::vector<int> threads;
  std::vector<Case> paths;
  std::vector<Roofs> roofs;
  std::vector<std::vector<double>> seconds;  ///< [threads][paths]
  std::string processor, date;

  Standing standing(std::size_t t, std::size_t path) const { return {paths[path], seconds[t][path], roofs[t]}; }
  /// \throws std::logic_error when there is none
  std::size_t find(const std::string& group, const std::string& name) const {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i].group == group && paths[i].name == name) return i;
    }
    throw std::logic_error("no path " + group + ": " + name);
  }
  /// How often the second path's time holds the first one's.
  double speed(std::size_t t, std::size_t path, std::size_t beside) const {
    return seconds[t][beside] / seconds[t][path];
  }
};

/// A figure that we want to be at least or at most so large.
struct Claim {
  std::string what;
  bool at_least;
  double wanted;
  std::vector<double> found;  ///< for each number of threads

  bool holds(double x) const { return at_least ? x >= wanted : x <= wanted; }
};

/// \param figure  figure(t) at the t-th number of threads
template <class F>
Claim claim(const Results& r, const std::string& what, bool at_least, double wanted, F&& figure) {
  Claim made{what, at_least, wanted, {}};
  for (std::size_t t = 0; t < r.threads.size(); ++t) made.found.push_back(figure(t));
  return made;
}

inline void add_format_claims(const Results& r, std::vector<Claim>& all) {
  for (const char* what : {expert_name, head_name}) {
    const auto at = [&](const char* format) {
      return r.find("Prepacked weights", fmt::format("{}, {}, 1 row", what, format));
    };
    const std::size_t full = at("float"), half = at("bfloat16"), narrow = at("MXFP4");
    all.push_back(claim(r, fmt::format("{}: MXFP4 at one row: times the float path's speed", what), true, 2,
                        [&](std::size_t t) { return r.speed(t, narrow, full); }));
    all.push_back(claim(r, fmt::format("{}: bytes of MXFP4 / bfloat16", what), false, 0.3,
                        [&](std::size_t) { return r.paths[narrow].bytes / r.paths[half].bytes; }));
  }
}

inline void add_product_claims(const Results& r, std::vector<Claim>& all) {
  const std::string name = fmt::format("{}, {}", role_names[0], training_layers().back().name);
  const std::size_t full = r.find("Products", name), half = r.find("Products", "bfloat16 " + name);
  all.push_back(claim(r, "bfloat16 storage, many rows: times the float product's speed", true, 0.8,
                      [&](std::size_t t) { return r.speed(t, half, full); }));
  for (std::size_t i = 0; i < r.paths.size(); ++i) {
    if (r.paths[i].group != "OpenBLAS") continue;
    const std::size_t ours = r.find("Products", r.paths[i].name);
    all.push_back(claim(r, fmt::format("{}: times OpenBLAS's speed ({})", r.paths[i].name, openblas_name()), true, 0.95,
                        [&](std::size_t t) { return r.speed(t, ours, i); }));
  }
}

inline std::vector<Claim> claims(const Results& r) {
  std::vector<Claim> all;
  add_format_claims(r, all);
  add_product_claims(r, all);
  for (std::size_t i = 0; i < r.paths.size(); ++i) {
    const Case& path = r.paths[i];
    if (path.group.find("Elementwise") != 0) continue;
    all.push_back(claim(r, fmt::format("{}: of the copy bandwidth", path.name), true, 0.8, [&](std::size_t t) {
      return path.bytes / r.seconds[t][i] / r.roofs[t].bandwidth(Moves::copies, path.home);
    }));
  }
  return all;
}

}  // namespace k3spec::bench
