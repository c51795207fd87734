#pragma once
/// \file
/// A device whose memory the host cannot read, and which hands all that it is asked for to the host's cores: code that
/// compiles for it touches no element itself, and has the bits of Cpu.
/// defines: Far, FarBuffer, test::TestDevice<Far>

#include <bit>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <tests/support/mirror.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/grouped_product.hpp>
#include <k3spec/backend/kda_problem.hpp>
#include <k3spec/backend/latent_attention_problem.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/expr/results.hpp>

namespace K3SPEC_NAMESPACE {

/// Counts what it is asked for, where `calls` is not null, and how often the host waits for it, where `waits` is not.
struct Far {
  index_t* calls = nullptr;
  int threads = 1;
  index_t* waits = nullptr;

  void wait() const {
    if (waits != nullptr) ++*waits;
  }
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
void upload(const Far& device, Vector<const T> from, Vector<Placed<T, Far>> to) {
  device.wait();
  upload(Cpu{}, from, bare(to));
}
template <class T>
void download(const Far& device, Vector<const Placed<T, Far>> from, Vector<T> to) {
  device.wait();
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

/// The sequences of a problem stand in the host's memory; a device brings them over.
template <class T>
const KdaSequence<value_t<T>>* near_sequences(const KdaSequence<T>* from, index_t count) {
  static thread_local std::vector<KdaSequence<value_t<T>>> to;
  to.clear();
  for (index_t i = 0; i < count; ++i) to.push_back(std::bit_cast<KdaSequence<value_t<T>>>(from[i]));
  return to.data();
}
template <class T, class Sees>
const LatentSequence<value_t<T>, Sees>* near_sequences(const LatentSequence<T, Sees>* from, index_t count) {
  static thread_local std::vector<LatentSequence<value_t<T>, Sees>> to;
  to.clear();
  for (index_t i = 0; i < count; ++i) to.push_back(std::bit_cast<LatentSequence<value_t<T>, Sees>>(from[i]));
  return to.data();
}
template <class To, class From>
To with_near_sequences(const From& p) {
  auto to = std::bit_cast<To>(p);
  to.sequences = near_sequences(p.sequences, p.count);
  return to;
}
template <class T, class D, index_t Dim>
struct Near<KdaRecurrence<Placed<T, D>, Dim>> {
  static auto of(const KdaRecurrence<Placed<T, D>, Dim>& p) { return with_near_sequences<KdaRecurrence<T, Dim>>(p); }
};
template <class T, class D>
struct Near<ShortConv<Placed<T, D>>> {
  static auto of(const ShortConv<Placed<T, D>>& p) { return with_near_sequences<ShortConv<T>>(p); }
};
template <class T, class D, class Sees>
struct Near<LatentAttention<Placed<T, D>, Sees>> {
  static auto of(const LatentAttention<Placed<T, D>, Sees>& p) {
    return with_near_sequences<LatentAttention<T, Sees>>(p);
  }
};
template <class T>
struct Near<std::span<const Matrix<T>>> {
  static auto of(std::span<const Matrix<T>> all) {
    static thread_local std::vector<Matrix<value_t<T>>> to;
    to.clear();
    for (const auto& one : all) to.push_back(bare(one));
    return std::span<const Matrix<value_t<T>>>(to);
  }
};

template <class T>
decltype(auto) near(T&& x) {
  return Near<std::remove_cvref_t<T>>::of(std::forward<T>(x));
}

}  // namespace far

#define K3SPEC_HAND_ON(function)                               \
  template <class... A>                                        \
  void function(const Far& device, A&&... a) {                 \
    function(device.host(), far::near(std::forward<A>(a))...); \
  }
K3SPEC_HAND_ON(argmax_kernel)
K3SPEC_HAND_ON(attention_residual_kernel)
K3SPEC_HAND_ON(block_backward_kernel)
K3SPEC_HAND_ON(block_forward_kernel)
K3SPEC_HAND_ON(chain_attention_kernel)
K3SPEC_HAND_ON(choose_tokens_kernel)
K3SPEC_HAND_ON(combine_experts_kernel)
K3SPEC_HAND_ON(differentiate)
K3SPEC_HAND_ON(differentiate_rows)
K3SPEC_HAND_ON(evaluate)
K3SPEC_HAND_ON(evaluate_rows)
K3SPEC_HAND_ON(gather_columns_kernel)
K3SPEC_HAND_ON(gather_rows_kernel)
K3SPEC_HAND_ON(gemm_batch)
K3SPEC_HAND_ON(hash_blocks_kernel)
K3SPEC_HAND_ON(kda_recurrence_kernel)
K3SPEC_HAND_ON(latent_attention_kernel)
K3SPEC_HAND_ON(move_rows_kernel)
K3SPEC_HAND_ON(require_anchors)
K3SPEC_HAND_ON(require_expert_ids)
K3SPEC_HAND_ON(require_groups)
K3SPEC_HAND_ON(require_token_ids)
K3SPEC_HAND_ON(rope_kernel)
K3SPEC_HAND_ON(route_kernel)
K3SPEC_HAND_ON(row_adjoints_kernel)
K3SPEC_HAND_ON(scatter_add_rows_kernel)
K3SPEC_HAND_ON(scatter_rows_kernel)
K3SPEC_HAND_ON(shift_ids_left_kernel)
K3SPEC_HAND_ON(shift_states_kernel)
K3SPEC_HAND_ON(short_conv_kernel)
K3SPEC_HAND_ON(sort_by_expert_kernel)
K3SPEC_HAND_ON(subtract_label_backward_kernel)
K3SPEC_HAND_ON(subtract_label_kernel)
K3SPEC_HAND_ON(sums_of_squares_kernel)
K3SPEC_HAND_ON(ttt_backward_kernel)
K3SPEC_HAND_ON(ttt_forward_kernel)
K3SPEC_HAND_ON(verify_kernel)
#undef K3SPEC_HAND_ON

template <AnyView A, AnyView B, AnyView C>
void gemm(const Far& device, const A& a, Op op_a, const B& b, Op op_b, const C& c, Into into = Into::overwrite) {
  gemm(device.host(), bare(a), op_a, bare(b), op_b, bare(c), into);
}
/// Weights lie as they were given.
template <class A, class T, class C>
void grouped_gemm_kernel(const Far& device, const GroupedProduct<A, Placed<T, Far>, C>& x) {
  const auto a = bare(x.a);
  const auto c = bare(x.c);
  for (index_t g = 0; g < x.groups; ++g) {
    const index_t begin = x.begin[g], count = x.begin[g + 1] - begin;
    const Matrix<const T> w(bare(x.weights) + g * x.weights_stride, c.extent(1), a.extent(1));
    gemm(device.host(), a.rows(begin, count), Op::plain, w, Op::transposed, c.rows(begin, count));
  }
}

}  // namespace K3SPEC_NAMESPACE

namespace k3spec::test {
template <>
struct TestDevice<Far> {
  static constexpr bool rows_of_products_are_alone = true;
  static Far get(int threads) { return {nullptr, threads}; }
  static long allocations() { return ::allocations(); }
};
}  // namespace k3spec::test
