#pragma once
/// \file
/// Attention for a card by the host's cores, with copies there and back: until Cuda has kernels of its own, it lets the
/// rest of a draft's step be tested.
/// defines: ttt_forward_kernel, ttt_backward_kernel, block_forward_kernel, block_backward_kernel, require_anchors

#include <deque>
#include <vector>

#include <tests/cuda/device.hpp>
#include <k3spec/backend/cpu/block_attention.hpp>
#include <k3spec/backend/cpu/ttt_attention.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Copies of a card's memory, of which some are brought back.
class HostCopies {
 public:
  explicit HostCopies(const Cuda& cuda) { cuda.synchronize(); }

  /// v as it is now. \param written  whether `bring_back` brings it back
  template <class T, index_t... E>
  auto of(const View<T, E...>& v, bool written = false) {
    auto there = bare(v);
    using Bare = decltype(there);
    const index_t rows = there.extent(0);
    const index_t n = rows == 0 ? 0 : (rows - 1) * there.row_stride() + there.row_size();
    return Bare(array(there.data(), n, written), there.extents(), there.row_stride());
  }
  template <class T>
  AttentionKeys<value_t<T>> of(const AttentionKeys<T>& k, bool written = false) {
    return {of(k.kv, written), of(k.k_rope, written)};
  }
  template <class T>
  AttentionSteps<value_t<T>> of(const AttentionSteps<T>& steps, bool written = false) {
    AttentionSteps<value_t<T>> copies;
    for (index_t k = 0; k < steps.count; ++k) copies.add(of(steps[k], written));
    return copies;
  }
  template <class T>
  AttentionResult<value_t<T>> of(const AttentionResult<T>& r, bool written = false) {
    return {of(r.o, written), of(r.lse, written)};
  }
  template <class Heads, class T>
  TttProblem<Heads, T, CausalVisibility> of(const TttProblem<Heads, Placed<T, Cuda>, CausalVisibility>& p) {
    const index_t keys = p.span.sequences * p.span.keys;
    CausalVisibility visible = p.visible;
    visible.attention_mask = array(visible.attention_mask, keys, false);
    visible.document_starts = array(visible.document_starts, keys, false);
    return {p.span, of(p.q), of(p.steps), visible, p.scale};
  }
  template <class Heads, class T>
  BlockProblem<Heads, T, BlockVisibility> of(const BlockProblem<Heads, Placed<T, Cuda>, BlockVisibility>& p) {
    const index_t blocks = p.span.sequences * p.span.blocks;
    BlockVisibility visible = p.visible;
    visible.anchors = array(visible.anchors, blocks, false);
    visible.keep = array(visible.keep, blocks, false);
    visible.document_starts = array(visible.document_starts, p.span.context_rows(), false);
    return {p.span, of(p.q), of(p.context), of(p.noise), visible, p.scale};
  }

  void bring_back() {
    for (const Written& w : written_) {
      check(cudaMemcpy(w.to, w.bytes->data(), w.bytes->size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }

 private:
  struct Written {
    const std::vector<std::byte>* bytes;
    void* to;
  };

  template <class T>
  T* array(T* from, index_t n, bool written) {
    if (from == nullptr || n == 0) return from;
    auto& bytes = copies_.emplace_back(static_cast<std::size_t>(n) * sizeof(T));
    check(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (written) written_.push_back({&bytes, const_cast<std::remove_const_t<T>*>(from)});
    return reinterpret_cast<T*>(bytes.data());
  }

  std::deque<std::vector<std::byte>> copies_;
  std::vector<Written> written_;
};

}  // namespace cuda

template <class Heads, class T, class Visible>
void ttt_forward_kernel(const Cuda& cuda, const TttProblem<Heads, Placed<T, Cuda>, Visible>& problem,
                        const AttentionResult<Placed<T, Cuda>>& result) {
  cuda::HostCopies host(cuda);
  ttt_forward_kernel(Cpu{}, host.of(problem), host.of(result, true));
  host.bring_back();
}

template <class Heads, class T, class Visible, class S>
void ttt_backward_kernel(const Cuda& cuda, const TttProblem<Heads, Placed<T, Cuda>, Visible>& problem,
                         const AttentionResult<const Placed<T, Cuda>>& result, const Matrix<const Placed<S, Cuda>>& d_o,
                         const TttGradients<Placed<S, Cuda>>& d, const TttScratch<Heads, Placed<S, Cuda>>& scratch) {
  cuda::HostCopies host(cuda);
  ttt_backward_kernel(Cpu{}, host.of(problem), host.of(result), host.of(d_o),
                      TttGradients<S>{host.of(d.d_q, true), host.of(d.d_steps, true), d.into_q, d.into_steps},
                      TttScratch<Heads, S>{host.of(scratch.d_k_rope), host.of(scratch.d_diagonal)});
  host.bring_back();
}

template <class Heads, class T, class Visible>
void block_forward_kernel(const Cuda& cuda, const BlockProblem<Heads, Placed<T, Cuda>, Visible>& problem,
                          const AttentionResult<Placed<T, Cuda>>& result) {
  cuda::HostCopies host(cuda);
  block_forward_kernel(Cpu{}, host.of(problem), host.of(result, true));
  host.bring_back();
}

template <class Heads, class T, class Visible, class S>
void block_backward_kernel(const Cuda& cuda, const BlockProblem<Heads, Placed<T, Cuda>, Visible>& problem,
                           const AttentionResult<const Placed<T, Cuda>>& result,
                           const Matrix<const Placed<S, Cuda>>& d_o, const BlockGradients<Placed<S, Cuda>>& d,
                           const BlockScratch<Heads, Placed<S, Cuda>>& scratch) {
  cuda::HostCopies host(cuda);
  block_backward_kernel(Cpu{}, host.of(problem), host.of(result), host.of(d_o),
                        BlockGradients<S>{host.of(d.d_q, true), host.of(d.d_context, true), host.of(d.d_noise, true),
                                          d.into_q, d.into_context, d.into_noise},
                        BlockScratch<Heads, S>{host.of(scratch.context), host.of(scratch.noise)});
  host.bring_back();
}

/// Nothing: anchors are the card's.
inline void require_anchors(const Cuda&, const BlockVisibility&, const BlockSpan&) {}

}  // namespace K3SPEC_NAMESPACE
