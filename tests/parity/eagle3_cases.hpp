#pragma once
// All EAGLE-3 reference cases, in sizes of either set, of any type and on any device.
#include <tests/parity/eagle3_bfloat16.hpp>

namespace k3spec::test {

template <class Cases>
struct NoQLora : Cases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
template <class Cases>
struct NoGate : Cases {
  static constexpr bool mla_use_output_gate = false;
};
template <class Cases>
struct V31 : Cases {
  static constexpr bool fc_norm = true, norm_output = true;
};
template <class Cases>
struct FcNorm : Cases {
  static constexpr bool fc_norm = true;
};
template <class Cases>
struct NormOutput : Cases {
  static constexpr bool norm_output = true;
};
template <class Cases>
struct FullVocabulary : Cases {
  static constexpr index_t draft_vocab_size = Cases::vocab_size;
};
template <class Cases>
struct Stretched : Cases {
  static constexpr std::optional<Yarn> rope_scaling = yarn_of_cases;
};

template <class Cases, class T, class D = Cpu>
void eagle3_k3_cases() {
  eagle3_case<Cases, T, D>("eagle3_k3");
  eagle3_case<NoQLora<Cases>, T, D>("eagle3_k3_no_q_lora");
  eagle3_case<NoGate<Cases>, T, D>("eagle3_k3_no_gate");
  eagle3_case<V31<Cases>, T, D>("eagle3_k3_v3_1");
  eagle3_case<FullVocabulary<Cases>, T, D>("eagle3_k3_full_vocab");
  eagle3_case<Cases, T, D>("eagle3_k3_packed");
  eagle3_case<Cases, T, D>("eagle3_k3_packed_lk_lambda");
  eagle3_case<Cases, T, D, true>("eagle3_k3_lk_alpha");
  eagle3_case<Cases, T, D>("eagle3_k3_lk_lambda");
}

/// With one of EAGLE-3.1's two norms each.
template <class Cases, class T, class D = Cpu>
void eagle3_norm_cases() {
  eagle3_case<FcNorm<Cases>, T, D>("eagle3_k3_fc_norm");
  eagle3_case<NormOutput<Cases>, T, D>("eagle3_k3_norm_output");
}

/// With DeepSeek-V3's attention block.
template <class Cases, class T, class D = Cpu>
void eagle3_deepseek_cases() {
  eagle3_case<Cases, T, D>("eagle3_deepseek");
  eagle3_case<NoQLora<Cases>, T, D>("eagle3_deepseek_no_q_lora");
  eagle3_case<Stretched<Cases>, T, D>("eagle3_deepseek_yarn");
  eagle3_case<Cases, T, D>("eagle3_deepseek_packed");
  eagle3_case<Stretched<Cases>, T, D, true>("eagle3_deepseek_packed_yarn_lk_alpha");
  eagle3_case<V31<Cases>, T, D>("eagle3_deepseek_v3_1");
}

}  // namespace k3spec::test
