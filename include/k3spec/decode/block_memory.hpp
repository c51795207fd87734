#pragma once
/// \file
/// The memory of a block draft's session on its device: what it remembers of its texts, and what a draft works with.
/// defines: BlockMemory, BlockDraftScratch

#include <array>

#include <k3spec/core/memory.hpp>
#include <k3spec/decode/block_heads.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/target/absorbed_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// What a session plans on its device for its size.
/// \tparam Draft  DFlashDraft<Config> or DSparkDraft<Config>
template <class Draft, Element T, Device D>
struct BlockMemory {
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Absorbed = AbsorbedAttention<typename Draft::config, E>;

  /// Of a block that is to draft `count` tokens.
  static constexpr index_t slots(index_t count) { return count + BlockHeads<Draft, T, D>::first_slot; }
  /// Of a sequence's cache: the context's, and those of a block behind them.
  static constexpr index_t positions(const SessionSize& size) { return size.capacity + slots(size.chain); }

  /// [sequences · positions(size)] of each layer
  std::array<Rows<E, Absorbed::latent>, static_cast<std::size_t>(Draft::Backbone::num_layers)> cache;
  Rows<E, Draft::hidden> fc, context;  ///< [rows], and the next two
  Rows<E, Absorbed::latent> kv_a;
  Rows<E, Absorbed::kv_lora> kv_latent;
  Rows<S, Draft::vocabulary> logits;  ///< [sequences · chain], and, at a temperature, weights

  template <Allocator A>
  static BlockMemory allocate(A& a, const SessionSize& size) {
    BlockMemory m{};
    for (auto& c : m.cache) take_rows(a, size.sequences * positions(size), c);
    take_rows(a, size.rows, m.fc), take_rows(a, size.rows, m.context), take_rows(a, size.rows, m.kv_a);
    take_rows(a, size.rows, m.kv_latent), take_rows(a, size.sequences * size.chain, m.logits);
    return m;
  }
};

/// What one call of draft works with on its device.
template <class Draft, Element T, Device D>
struct BlockDraftScratch {
  using E = element_t<D, T>;
  using Activations = typename Draft::Backbone::template Activations<E>;
  using Attention = typename BlockMemory<Draft, T, D>::Absorbed::Scratch;
  using Heads = typename BlockHeads<Draft, T, D>::Block;

  Activations backbone;
  Attention attention;
  Heads heads;
  Rows<E, Draft::hidden> noise;
  Rows<E, Draft::hidden> hidden;  ///< [blocks · most, H], of the slots that predict; 0 where a block is shorter

  /// Working memory of a draft.
  /// \param most  tokens of the longest block \param rows  slots of all blocks
  template <Allocator A>
  static constexpr BlockDraftScratch allocate(A& a, index_t blocks, index_t most, index_t rows) {
    BlockDraftScratch b{
        Activations::allocate(a, 0, rows), Attention::allocate(a, rows), Heads::allocate(a, blocks, most), {}, {}};
    take_rows(a, rows, b.noise), take_rows(a, blocks * most, b.hidden);
    return b;
  }
};

}  // namespace K3SPEC_NAMESPACE
