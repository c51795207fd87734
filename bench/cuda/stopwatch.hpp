#pragma once
/// \file
/// How long a card takes for what it is asked to do, by events.
/// defines: bench::Stopwatch

#include <algorithm>
#include <vector>

#include <k3spec/cuda.hpp>

namespace k3spec::bench {

/// Before each timed call more is read than a card's caches hold: a call finds its operands in memory and nothing in
/// the caches that must be written back. That read also keeps the card busy while the host queues the call, so that
/// calls that do not wait for the card are timed without the host's part.
class Stopwatch {
 public:
  /// \param other  elements of what is read before each call
  Stopwatch(const Cuda& cuda, index_t other, int calls)
      : cuda_(cuda),
        other_(cuda, other),
        sums_(cuda, expr::square_blocks(other)),
        seconds_(static_cast<std::size_t>(calls)) {}

  /// The median of several calls, after some that do not count.
  template <class F>
  double seconds(F&& call) {
    for (int i = 0; i < 3; ++i) call();
    for (double& s : seconds_) s = once(call);
    cuda_.synchronize();
    const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    return *middle;
  }

 private:
  template <class F>
  double once(F&& call) {
    using T = element_t<Cuda, float>;
    sums_of_squares<T>(cuda_, Vector<const T>(other_.data(), other_.size()),
                       Vector<element_t<Cuda, double>>(sums_.data(), sums_.size()));
    begin_.record(cuda_.stream());
    call();
    end_.record(cuda_.stream());
    end_.synchronize();
    return end_.since(begin_) * 1e-3;
  }

  const Cuda& cuda_;
  CudaBuffer<float> other_;
  CudaBuffer<double> sums_;
  cuda::Event begin_, end_;
  std::vector<double> seconds_;
};

}  // namespace k3spec::bench
