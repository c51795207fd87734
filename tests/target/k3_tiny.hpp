#pragma once
/// \file
/// The trained miniature and its stored values.
/// defines: test::tiny, test::tiny_reference, test::greedy_next

#include "tests/support/reference_case.hpp"

#include <k3spec/target/load.hpp>

#include "runner.hpp"

namespace k3spec::test {

inline const std::string tiny_folder = K3SPEC_SOURCE_DIR "/examples/data/k3-tiny";

/// k3-tiny with its weights in storage type T, loaded once.
template <class T>
Runner<configs::KimiK3Tiny, T>& tiny() {
  static Runner<configs::KimiK3Tiny, T>* const runner = [] {
    auto* r = new Runner<configs::KimiK3Tiny, T>;
    load_target<configs::KimiK3Tiny>(tiny_folder, r->parameters);
    r->freeze();
    return r;
  }();
  return *runner;
}

inline ReferenceCase tiny_reference() { return ReferenceCase::load(tiny_folder + "/reference.safetensors"); }

/// The most likely token after each row of logits, the lowest id on a tie.
template <class T>
std::vector<index_t> greedy_next(const std::vector<T>& logits) {
  constexpr index_t vocab = configs::KimiK3Tiny::vocab_size;
  std::vector<index_t> out;
  for (auto row = logits.begin(); row != logits.end(); row += vocab) {
    out.push_back(std::max_element(row, row + vocab) - row);
  }
  return out;
}

}  // namespace k3spec::test
