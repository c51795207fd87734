#pragma once
/// \file
/// Which windows of the data a step takes. It hangs on the seed and on how many windows the steps before took, so that
/// a run can go on at any step with nothing remembered, and is the same for any number of ranks.
/// defines: WindowSampling, WindowTurns

#include <array>
#include <cstdint>
#include <string_view>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/permutation.hpp>
#include <k3spec/core/rng.hpp>

namespace K3SPEC_NAMESPACE {

/// random: pieces of the data at any place. shuffled: its windows one behind the other, each once an epoch. packed:
/// windows of whole documents (PackedWindows), each once an epoch; documents do not see each other.
enum class WindowSampling { random, shuffled, packed };
template <>
inline constexpr std::array<std::string_view, 3> names_of<WindowSampling>{"random", "shuffled", "packed"};

/// Whose turn it is, of all windows that a run takes one after the other.
class WindowTurns {
 public:
  /// Turns of one run.
  /// \param count  places, or windows of the data; at least 1
  WindowTurns(std::uint64_t seed, index_t count) : seed_(seed), count_(static_cast<std::uint64_t>(count)) {}

  /// A place that has been drawn.
  index_t random(std::uint64_t turn) const {
    return static_cast<index_t>(Philox(seed_, streams::windows).below(turn, count_));
  }
  /// Each of the windows once, in an order that is another one in each epoch. (Orders come again after 2^32 epochs.)
  index_t shuffled(std::uint64_t turn) const {
    const std::uint64_t epoch = turn / count_ % (std::uint64_t{1} << 32U);
    return static_cast<index_t>(Permutation(seed_, streams::orders + epoch, count_)(turn % count_));
  }

 private:
  std::uint64_t seed_, count_;
};

}  // namespace K3SPEC_NAMESPACE
