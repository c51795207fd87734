#pragma once
/// \file
/// The tokens that a draft can say: draft id to target id and back.
/// defines: DraftVocabulary, count_tokens

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/safetensors_writer.hpp>

namespace K3SPEC_NAMESPACE {

/// Which of the target's tokens a draft can say, and their ids in it.
class DraftVocabulary {
 public:
  /// A vocabulary of these tokens.
  /// \param ids  target id of each draft id
  /// \throws Error on none or more ids than tokens, an id out of range or given twice
  DraftVocabulary(std::span<const index_t> ids, index_t vocab_size)
      : ids_(checked(ids, vocab_size)), offsets_(ids_.size()), in_draft_(vocab_size) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto at = static_cast<index_t>(i);
      ids_[at] = ids[i];
      offsets_[at] = ids[i] - at;
      std::uint8_t& seen = in_draft_[ids[i]];
      if (seen != 0)
        throw Error(fmt::format("draft vocabulary: id {}", i), fmt::format("token {} again", ids[i]),
                    "each token once");
      seen = 1;
    }
  }

  /// Every token, each its own draft id: no d2t and t2d are written.
  static DraftVocabulary whole(index_t vocab_size) {
    std::vector<index_t> ids(static_cast<std::size_t>(std::max<index_t>(vocab_size, 0)));
    std::iota(ids.begin(), ids.end(), index_t{0});
    return DraftVocabulary(ids, vocab_size);
  }

  /// The `draft_size` most frequent tokens, of equally frequent ones those with lower ids; in ascending order.
  /// \param counts  how often each token was seen
  static DraftVocabulary most_frequent(std::span<const std::int64_t> counts, index_t draft_size) {
    const auto vocab_size = static_cast<index_t>(counts.size());
    check_size(draft_size, vocab_size);
    std::vector<index_t> ids(counts.size());
    std::iota(ids.begin(), ids.end(), index_t{0});
    std::stable_sort(ids.begin(), ids.end(), [&](index_t a, index_t b) {
      return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
    });
    ids.resize(static_cast<std::size_t>(draft_size));
    std::sort(ids.begin(), ids.end());
    return DraftVocabulary(ids, vocab_size);
  }

  /// As a draft's checkpoint has it: a trained draft's map is reused, never built again. Neither d2t nor t2d: the whole
  /// vocabulary, if that is the draft's.
  /// \throws Error when a map is absent, of another size, out of range, or d2t and t2d disagree
  static DraftVocabulary read(const io::ModelTensors& checkpoint, index_t draft_size, index_t vocab_size) {
    if (draft_size == vocab_size && !checkpoint.contains(d2t_name) && !checkpoint.contains(t2d_name))
      return whole(vocab_size);
    check_size(draft_size, vocab_size);
    check_tensor(checkpoint, d2t_name, draft_size, DType::I64);
    check_tensor(checkpoint, t2d_name, vocab_size, DType::BOOL);
    std::vector<index_t> ids = checkpoint.read<std::int64_t>(d2t_name);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = to_id(checkpoint.path(), static_cast<index_t>(i), ids[i], vocab_size);
    try {
      DraftVocabulary vocabulary(ids, vocab_size);
      vocabulary.check_t2d(checkpoint.read_bytes(t2d_name));
      return vocabulary;
    } catch (const Error& e) {
      throw e.within(checkpoint.path());
    }
  }

  index_t draft_size() const { return offsets_.size(); }
  index_t vocab_size() const { return in_draft_.size(); }
  /// Every token, each its own draft id. A whole vocabulary in another order is not: its map must be kept.
  bool is_whole() const {
    return draft_size() == vocab_size() &&
           std::all_of(offsets_.data(), offsets_.data() + offsets_.size(), [](std::int64_t o) { return o == 0; });
  }

  /// Refuses another target's or another draft's vocabulary.
  /// \throws Error unless it is of these sizes
  void require_sizes(index_t draft, index_t vocabulary) const {
    if (draft_size() == draft && vocab_size() == vocabulary) return;
    throw Error("draft vocabulary: sizes", fmt::format("{} of {} tokens", draft_size(), vocab_size()),
                fmt::format("{} of {}, the draft's", draft, vocabulary));
  }

  /// The target's id of draft id i. \throws Error on an i that is none
  index_t target_id(index_t i) const {
    require_index("draft vocabulary: draft id", i, draft_size());
    return ids_[i];
  }
  /// Whether the draft can say a target's token. \throws Error on a token that is none
  bool contains(index_t token) const {
    require_index("draft vocabulary: token", token, vocab_size());
    return in_draft_[token] != 0;
  }
  /// [draft_size]
  Vector<const index_t> target_ids() const { return Vector<const index_t>(ids_.data(), ids_.size()); }

  /// d2t [draft_size]: target id minus draft id.
  Vector<const std::int64_t> d2t() const { return Vector<const std::int64_t>(offsets_.data(), offsets_.size()); }
  /// t2d [vocab_size]: 1 where the draft can say the token, else 0.
  Vector<const std::uint8_t> t2d() const { return Vector<const std::uint8_t>(in_draft_.data(), in_draft_.size()); }

  /// What a checkpoint stores: nothing if is_whole(). Valid while this object lives.
  std::vector<io::TensorSource> sources() const {
    if (is_whole()) return {};
    return {io::source(d2t_name, d2t()), {t2d_name, DType::BOOL, {vocab_size()}, in_draft_.data()}};
  }

  static constexpr const char* d2t_name = "d2t";
  static constexpr const char* t2d_name = "t2d";

 private:
  static void check_size(index_t draft_size, index_t vocab_size) {
    if (draft_size >= 1 && draft_size <= vocab_size) return;
    throw Error("draft vocabulary: size", fmt::format("{}", draft_size), fmt::format("1 to {}", vocab_size));
  }

  static Buffer<index_t> checked(std::span<const index_t> ids, index_t vocab_size) {
    check_size(static_cast<index_t>(ids.size()), vocab_size);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < vocab_size) continue;
      throw Error(fmt::format("draft vocabulary: id {}", i), fmt::format("token {}", ids[i]),
                  fmt::format("0 to {}", vocab_size - 1));
    }
    return Buffer<index_t>(static_cast<index_t>(ids.size()));
  }

  static void check_tensor(const io::ModelTensors& checkpoint, const std::string& name, index_t size, DType dtype) {
    const io::TensorInfo& info = checkpoint.info(name);
    const std::vector<index_t> shape{size};
    if (info.shape == shape && info.dtype == dtype) return;
    const auto say = [](DType t, const std::vector<index_t>& s) {
      return std::string(k3spec::name(t)) + " " + io::shape_string(s);
    };
    throw Error(fmt::format("{}: '{}'", checkpoint.path(), name), say(info.dtype, info.shape), say(dtype, shape));
  }

  /// i + offset; the sum is made only where it cannot overflow.
  static index_t to_id(const std::string& file, index_t i, std::int64_t offset, index_t vocab_size) {
    if (offset >= -i && offset < vocab_size - i) return i + offset;
    throw Error(fmt::format("{}: 'd2t'[{}]", file, i), fmt::format("offset {}", offset),
                fmt::format("{} to {}", -i, vocab_size - 1 - i));
  }

  void check_t2d(std::span<const std::byte> stored) const {
    for (index_t token = 0; token < vocab_size(); ++token) {
      const bool in_draft = stored[static_cast<std::size_t>(token)] != std::byte{0};
      if (in_draft == contains(token)) continue;
      throw Error(fmt::format("'t2d'[{}]", token), in_draft ? "true" : "false", "what d2t says");
    }
  }

  Buffer<index_t> ids_;
  Buffer<std::int64_t> offsets_;
  Buffer<std::uint8_t> in_draft_;
};

/// counts[id] += how often it stands in `ids`.
/// \throws Error on an id out of range
template <class Id>
void count_tokens(std::span<const Id> ids, std::span<std::int64_t> counts) {
  for (const Id id : ids) {
    const auto token = static_cast<std::int64_t>(id);
    if (token < 0 || token >= static_cast<std::int64_t>(counts.size())) {
      throw Error("token", fmt::format("{}", token),
                  fmt::format("0 to {}", static_cast<std::int64_t>(counts.size()) - 1));
    }
    ++counts[static_cast<std::size_t>(token)];
  }
}

}  // namespace K3SPEC_NAMESPACE
