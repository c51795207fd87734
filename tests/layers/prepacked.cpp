// Packed weights give the bits of the plain ones, through every layer that a draft decodes with.
#include <doctest/doctest.h>

#include <cstring>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/layers/prepacked.hpp>

using namespace k3spec;

namespace {

struct Odd : configs::KimiK3 {
  static constexpr index_t hidden_size = 27;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 9;
};

template <class T, index_t N>
void fill(const Rows<T, N>& x) {
  const Philox random(5, 0);
  for (index_t i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<T>(static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i))));
  }
}

template <class T, index_t N>
bool same_bits(const Rows<T, N>& a, const Rows<T, N>& b) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE_TEMPLATE("packed weights give the same bits: gated MLP and MLA with its norms", T, float, double, bfloat16) {
  using MLP = SiTUMLP<27, 35, Odd>;
  using Attention = MLA<Odd>;
  Parameters<MLP, T> mlp;
  Parameters<Attention, T> attention;
  mlp.initialize(1, 0.3);
  attention.initialize(2, 0.3);
  const auto packed_mlp = prepack_weights<MLP, T>(mlp.weights());
  const auto packed_attention = prepack_weights<Attention, T>(attention.weights());
  for (const index_t rows : {1, 2, 6, 33}) {
    Arena arena(1 << 20);
    Rows<T, 27> x, plain, packed;
    take_rows(arena, rows, x), take_rows(arena, rows, plain), take_rows(arena, rows, packed);
    fill(x);
    const auto saved = MLP::Saved<T>::allocate(arena, rows);
    MLP::forward(Cpu{}, mlp.weights(), x, plain, saved);
    MLP::forward(Cpu{}, packed_mlp, x, packed, saved);
    CHECK(same_bits(plain, packed));

    const auto a = Attention::Saved<T>::allocate(arena, rows), b = Attention::Saved<T>::allocate(arena, rows);
    fill(a.o), fill(b.o);
    Attention::project(Cpu{}, attention.weights(), x, a);
    Attention::project(Cpu{}, packed_attention, x, b);
    CHECK(same_bits(a.q, b.q));
    CHECK(same_bits(a.kv, b.kv));
    Attention::output(Cpu{}, attention.weights(), x, a, plain);
    Attention::output(Cpu{}, packed_attention, x, b, packed);
    CHECK(same_bits(plain, packed));
  }
}
