// expect: save_engine_draft: this layout is for EAGLE-3 drafts with DeepSeek-V3's backbone
// expect: save_engine_draft: mla_norm_eps must be rms_norm_eps
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/io/engine_layout.hpp>

using namespace k3spec;

/// As far as writing looks at a draft.
template <class Config>
struct Draft {
  using config = Config;
  static constexpr DraftKind kind = DraftKind::eagle3;
  static constexpr index_t vocabulary = Config::vocab_size, draft_vocabulary = Config::draft_vocab_size;
  template <class T>
  struct Weights {
    View<T, 2, 2> head;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "head", w.head, Init::normal);
  }
};
struct OtherEps : configs::DeepSeekV3Tiny {
#ifdef K3SPEC_EXPECT_FAIL
  static constexpr double mla_norm_eps = 1e-5;
#endif
};
#ifdef K3SPEC_EXPECT_FAIL
using Config = configs::KimiK3Tiny;
#else
using Config = configs::DeepSeekV3Tiny;
#endif

void write(const Parameters<Draft<Config>, bfloat16>& a, const Parameters<Draft<OtherEps>, bfloat16>& b,
           const DraftVocabulary& vocabulary) {
  save_engine_draft(".", a, vocabulary, {1, 2, 3}, {});
  save_engine_draft(".", b, vocabulary, {1, 2, 3}, {});
}
