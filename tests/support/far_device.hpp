#pragma once
/// \file
/// A device whose memory the host cannot read, and which hands all that it is asked for to the host's cores: code that
/// compiles for it touches no element itself, and has the bits of Cpu.
/// defines: Far, FarBuffer, test::TestDevice<Far>

#include <bit>
#include <tuple>
#include <utility>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/expr/results.hpp>
#include <tests/support/mirror.hpp>

namespace K3SPEC_NAMESPACE {

/// Counts what it is asked for, where `calls` is not null.
struct Far {
  index_t* calls = nullptr;
  int threads = 1;

  Cpu host() const {
    if (calls != nullptr) ++*calls;
    return Cpu{threads};
  }
};
template <>
inline constexpr bool is_device<Far> = true;

/// The host's memory, not to be read by the host.
template <class T>
class FarBuffer {
 public:
  FarBuffer() = default;
  FarBuffer(const Far&, index_t count) : memory_(count) {}

  Placed<T, Far>* data() { return reinterpret_cast<Placed<T, Far>*>(memory_.data()); }
  const Placed<T, Far>* data() const { return reinterpret_cast<const Placed<T, Far>*>(memory_.data()); }
  index_t size() const { return memory_.size(); }
  void fill(std::byte value, index_t first = 0) { memory_.fill(value, first); }

 private:
  Buffer<T> memory_;
};

template <>
struct Memory<Far> {
  template <class T>
  using Element = Placed<T, Far>;
  template <class T>
  using Buffer = FarBuffer<T>;
  using Arena = BasicArena<FarBuffer<std::byte>>;
};

template <class T>
void upload(const Far&, Vector<const T> from, Vector<Placed<T, Far>> to) {
  upload(Cpu{}, from, bare(to));
}
template <class T>
void download(const Far&, Vector<const Placed<T, Far>> from, Vector<T> to) {
  download(Cpu{}, bare(from), to);
}

namespace far {

/// How an argument reaches Cpu: as it is.
template <class T>
struct Near {
  template <class U>
  static U&& of(U&& x) {
    return std::forward<U>(x);
  }
};
template <class T, index_t... E>
struct Near<View<T, E...>> {
  static auto of(const View<T, E...>& v) { return bare(v); }
};
template <class T>
struct Near<T*> {
  static auto of(T* p) { return bare(p); }
};
/// A plain problem is the same bytes wherever its elements are.
template <template <class...> class Problem, class... T>
  requires(is_placed<T> || ...)
struct Near<Problem<T...>> {
  static auto of(const Problem<T...>& p) { return std::bit_cast<Problem<value_t<T>...>>(p); }
};
template <class... T>
struct Near<std::tuple<T...>> {
  static auto of(const std::tuple<T...>& all) {
    return std::apply([](const T&... one) { return std::make_tuple(Near<T>::of(one)...); }, all);
  }
};

template <class T>
decltype(auto) near(T&& x) {
  return Near<std::remove_cvref_t<T>>::of(std::forward<T>(x));
}

}  // namespace far

#define K3SPEC_HAND_ON(function)                             \
  template <class... A>                                      \
  void function(const Far& device, A&&... a) {               \
    function(device.host(), far::near(std::forward<A>(a))...); \
  }
K3SPEC_HAND_ON(argmax_kernel)
K3SPEC_HAND_ON(attention_residual_kernel)
K3SPEC_HAND_ON(block_backward_kernel)
K3SPEC_HAND_ON(block_forward_kernel)
K3SPEC_HAND_ON(combine_experts_kernel)
K3SPEC_HAND_ON(differentiate)
K3SPEC_HAND_ON(differentiate_rows)
K3SPEC_HAND_ON(evaluate)
K3SPEC_HAND_ON(evaluate_rows)
K3SPEC_HAND_ON(gather_rows_kernel)
K3SPEC_HAND_ON(gemm)
K3SPEC_HAND_ON(gemm_batch)
K3SPEC_HAND_ON(grouped_gemm_kernel)
K3SPEC_HAND_ON(kda_recurrence_kernel)
K3SPEC_HAND_ON(latent_attention_kernel)
K3SPEC_HAND_ON(require_anchors)
K3SPEC_HAND_ON(require_expert_ids)
K3SPEC_HAND_ON(require_groups)
K3SPEC_HAND_ON(require_token_ids)
K3SPEC_HAND_ON(rope_kernel)
K3SPEC_HAND_ON(route_kernel)
K3SPEC_HAND_ON(scatter_add_rows_kernel)
K3SPEC_HAND_ON(scatter_rows_kernel)
K3SPEC_HAND_ON(shift_left_kernel)
K3SPEC_HAND_ON(short_conv_kernel)
K3SPEC_HAND_ON(sort_by_expert_kernel)
K3SPEC_HAND_ON(sums_of_squares_kernel)
K3SPEC_HAND_ON(ttt_backward_kernel)
K3SPEC_HAND_ON(ttt_forward_kernel)
#undef K3SPEC_HAND_ON

}  // namespace K3SPEC_NAMESPACE

namespace k3spec::test {
template <>
struct TestDevice<Far> {
  static constexpr bool rows_of_products_are_alone = true;
  static Far get(int threads) { return {nullptr, threads}; }
  static long allocations() { return ::allocations(); }
};
}  // namespace k3spec::test
