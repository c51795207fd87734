#pragma once
/// \file
/// Trainers of a draft of each kind for test::SmallTarget, in any type and on any device.
/// defines: test::OfEagle3, test::OfDFlash, test::OfDSpark

#include <optional>
#include <vector>

#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>

#include "tests/support/small_target.hpp"

namespace k3spec::test {

/// Of even tokens.
struct OfEagle3 {
  template <class T, class D>
  using Method = Eagle3Method<SmallTarget, SmallTarget, T, D>;
  template <class Setup>
  static Setup setup() {
    std::vector<index_t> ids;
    for (index_t i = 0; i < SmallTarget::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
    return {DraftVocabulary(ids, SmallTarget::vocab_size), {1, 2, 4}};
  }
};

struct SmallDFlash : configs::DFlash<SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
};
struct OfDFlash {
  template <class T, class D>
  using Method = DFlashMethod<SmallTarget, SmallDFlash, T, D>;
  template <class Setup>
  static Setup setup() {
    return {{1, 2, 4}};
  }
};

struct SmallDSpark : configs::DSpark<SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
  static constexpr index_t markov_rank = 6;
};
struct OfDSpark {
  template <class T, class D>
  using Method = DSparkMethod<SmallTarget, SmallDSpark, T, D>;
  template <class Setup>
  static Setup setup() {
    return {{1, 2, 4}};
  }
};

}  // namespace k3spec::test
