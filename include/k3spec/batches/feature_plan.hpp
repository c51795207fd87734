#pragma once
/// \file
/// What a cache of features is of: which target, which of its states, of which windows of which tokens. It stands in
/// the cache's features.json; whoever reads the cache compares.
/// defines: FeaturePlan

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/state_storage.hpp>
#include <k3spec/batches/window_sampling.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/safetensors_header.hpp>
#include <k3spec/target/taps.hpp>

namespace K3SPEC_NAMESPACE {

template <>
inline constexpr std::array<std::string_view, 4> names_of<Tap::What>{"embedding", "running_sum", "residual_mixture",
                                                                     "post_norm"};

namespace detail {

/// The members of an object in a file, each of the kind that is asked for. All throw Error naming file and member.
class PlanReader {
 public:
  PlanReader(const io::json& from, std::string subject) : from_(from), subject_(std::move(subject)) {
    if (!from.is_object()) throw Error(subject_, io::detail::excerpt(from), "an object");
  }

  const io::json& member(const std::string& name) const {
    const auto* const found = from_.find(name);
    if (found == from_.end()) throw Error(subject(name), "nothing", "a value");
    return *found;
  }
  PlanReader object(const std::string& name) const { return {member(name), subject(name)}; }
  /// No plan's number is larger than a step can have tokens.
  index_t count(const std::string& name, index_t least) const {
    constexpr index_t most = std::numeric_limits<std::int32_t>::max();
    const auto n = io::detail::as_index(member(name));
    if (n && *n >= least && *n <= most) return *n;
    throw Error(subject(name), io::detail::excerpt(member(name)), fmt::format("{} to {}", least, most));
  }
  /// \returns its place in `names`
  template <std::size_t N>
  std::size_t one_of(const std::string& name, const std::array<std::string_view, N>& names) const {
    const std::string text = member(name).is_string() ? member(name).get<std::string>() : std::string();
    std::string all;
    for (std::size_t i = 0; i < N; ++i) {
      if (names[i] == text) return i;
      all.append(i == 0 ? "" : ", ").append(names[i]);
    }
    throw Error(subject(name), io::detail::excerpt(member(name)), "one of " + all);
  }
  template <class E>
  E named(const std::string& name) const {
    return static_cast<E>(one_of(name, names_of<E>));
  }
  Fingerprint fingerprint(const std::string& name) const {
    const std::string text = member(name).is_string() ? member(name).get<std::string>() : std::string();
    if (text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos) {
      return {std::stoull(text, nullptr, 16)};
    }
    throw Error(subject(name), io::detail::excerpt(member(name)), "16 hexadecimal digits");
  }
  std::vector<index_t> ids(const std::string& name) const {
    std::vector<index_t> out;
    if (!list(name).empty()) {
      for (const io::json& id : list(name)) {
        const auto n = io::detail::as_index(id);
        if (!n) throw Error(subject(name), io::detail::excerpt(id), "integers");
        out.push_back(*n);
      }
    }
    return out;
  }
  const io::json& list(const std::string& name) const {
    if (member(name).is_array()) return member(name);
    throw Error(subject(name), io::detail::excerpt(member(name)), "a list");
  }
  std::string subject(const std::string& name) const { return subject_ + ": " + name; }

 private:
  const io::json& from_;
  std::string subject_;
};

/// What two JSON values differ in first: the dotted name of the member, and both values; no name: nothing.
struct JsonDifference {
  std::string name;
  io::json found, wanted;
};
inline JsonDifference first_difference(const io::json& found, const io::json& wanted, const std::string& name = {}) {
  if (found == wanted) return {};
  if (!found.is_object() || !wanted.is_object()) return {name, found, wanted};
  const auto within = [&](const std::string& member) { return name.empty() ? member : name + ": " + member; };
  for (const auto& [member, value] : wanted.items()) {
    const auto* const there = found.find(member);
    JsonDifference d = first_difference(there == found.end() ? io::json() : *there, value, within(member));
    if (!d.name.empty()) return d;
  }
  for (const auto& [member, value] : found.items()) {
    if (!wanted.contains(member)) return {within(member), value, io::json()};
  }
  return {};
}

}  // namespace detail

/// What a cache of features is of.
struct FeaturePlan {
  io::json target;                 ///< its config.json
  Fingerprint target_fingerprint;  ///< of its parameters, as a run of this dtype holds them
  std::vector<Tap> taps;           ///< the states that are kept, beside the last one, which is post-norm
  /// The same states as a draft's config.json has them. What counts is `taps`.
  std::vector<index_t> layers;
  LayerIds layer_ids = LayerIds::after_layer_0;
  AuxStream aux_stream = AuxStream::running_sum;
  DType dtype = DType::F32;  ///< of the states in their files, where they may be narrower than the target's
  index_t length = 0;        ///< tokens of a window
  Packing packing = Packing::none;
  WindowSampling sampling = WindowSampling::shuffled;
  Fingerprint training, held_out;  ///< of the tokens, as a run of this packing sees them
  index_t training_windows = 0, held_out_windows = 0;
  index_t shard_windows = 1;  ///< windows of a file of states

  static constexpr int format = 1;
  static constexpr const char* last_state = "post_norm";

  index_t windows() const { return training_windows + held_out_windows; }
  index_t shards() const { return (windows() + shard_windows - 1) / shard_windows; }
  /// The windows of a shard are [first, first + count) of all, those to train on before those held out.
  index_t first_of(index_t shard) const { return shard * shard_windows; }
  index_t count_of(index_t shard) const { return std::min(shard_windows, windows() - first_of(shard)); }

  /// What each token takes in the files of states: its id, its document's length where documents are apart, the
  /// target's choice, and the states of `hidden` numbers each, with their scales.
  std::uint64_t bytes_per_token(index_t hidden) const {
    const std::uint64_t ids = packing == Packing::apart ? 12 : 8, scale = has_scales() ? sizeof(float) : 0;
    return ids + (taps.size() + 1) * (static_cast<std::uint64_t>(hidden) * size_of(dtype) + scale);
  }
  bool has_scales() const { return is_scaled(dtype); }

  io::json to_json() const {
    const auto word = []<class E>(E value) { return names_of<E>[static_cast<std::size_t>(value)]; };
    io::json states{{"layers", layers},   {"layer_ids", word(layer_ids)}, {"aux_stream", word(aux_stream)},
                    {"last", last_state}, {"dtype", name(dtype)},         {"taps", taps_json()}};
    io::json of_windows{{"length", length},       {"packing", word(packing)},     {"sampling", word(sampling)},
                        {"shard", shard_windows}, {"training", training_windows}, {"held_out", held_out_windows}};
    return {{"format", format},
            {"target", {{"config", target}, {"fingerprint", target_fingerprint.text()}}},
            {"states", std::move(states)},
            {"windows", std::move(of_windows)},
            {"tokens", {{"training", training.text()}, {"held_out", held_out.text()}}}};
  }

  io::json taps_json() const {
    io::json all = io::json::array();
    for (const Tap& tap : taps) {
      all.push_back({{"state", names_of<Tap::What>[static_cast<std::size_t>(tap.what)]}, {"layer", tap.layer}});
    }
    return all;
  }

  /// Reads a plan from a cache's JSON.
  /// \throws Error naming file and member that is absent or out of range
  static FeaturePlan from_json(const io::json& j, const std::string& file) {
    const detail::PlanReader all(j, file);
    if (const io::json& found = all.member("format"); found != io::json(format)) {
      throw Error(all.subject("format"), io::detail::excerpt(found), std::to_string(format));
    }
    FeaturePlan plan;
    const detail::PlanReader of_target = all.object("target"), tokens = all.object("tokens");
    plan.target = of_target.member("config");
    plan.target_fingerprint = of_target.fingerprint("fingerprint");
    plan.training = tokens.fingerprint("training"), plan.held_out = tokens.fingerprint("held_out");
    plan.read_states(all.object("states"));
    plan.read_windows(all.object("windows"));
    return plan;
  }

  // ---- Each throws Error naming the file and the member in which the cache is another one than is wanted

  void check_taps(const std::vector<Tap>& wanted, const std::string& file) const {
    if (taps == wanted) return;
    FeaturePlan other;
    other.taps = wanted;
    throw Error(file + ": states: taps", taps_json().dump(), other.taps_json().dump());
  }
  void check_windows(index_t wanted_length, Packing wanted_packing, const std::string& file) const {
    if (length != wanted_length) {
      throw Error(file + ": windows: length", std::to_string(length), std::to_string(wanted_length));
    }
    check_named("windows: packing", packing, wanted_packing, file);
  }
  void check_sampling(WindowSampling wanted, const std::string& file) const {
    check_named("windows: sampling", sampling, wanted, file);
  }
  /// States of a run's type, or rounded to bfloat16 or float8_e4m3fn.
  void check_dtype(DType wanted, const std::string& file) const {
    if (dtype == wanted || dtype == DType::BF16 || dtype == DType::F8_E4M3) return;
    throw Error(file + ": states: dtype", name(dtype),
                std::string(name(wanted)) + (wanted == DType::BF16 ? " or F8_E4M3" : ", BF16 or F8_E4M3"));
  }
  void check_target(Fingerprint wanted, const std::string& file) const {
    check_fingerprint("target: fingerprint", target_fingerprint, wanted, "the target's", file);
  }
  void check_tokens(Fingerprint of_training, Fingerprint of_held_out, const std::string& file) const {
    check_fingerprint("tokens: training", training, of_training, "that of the data to train on", file);
    check_fingerprint("tokens: held_out", held_out, of_held_out, "that of the data held out", file);
  }
  /// Refuses a cache with fewer held-out windows.
  /// \param windows  that will be looked at
  void check_held_out(index_t windows, const std::string& file) const {
    if (windows <= held_out_windows) return;
    throw Error(file + ": windows: held_out", std::to_string(held_out_windows),
                std::to_string(windows) + " or more, which are looked at");
  }

 private:
  template <class E>
  static void check_named(const char* member, E found, E wanted, const std::string& file) {
    const auto word = [](E value) { return names_of<E>[static_cast<std::size_t>(value)]; };
    if (found != wanted) throw Error(file + ": " + member, word(found), std::string(word(wanted)));
  }
  static void check_fingerprint(const char* member, Fingerprint found, Fingerprint wanted, const char* whose,
                                const std::string& file) {
    if (found == wanted) return;
    throw Error(file + ": " + member, found.text(), wanted.text() + ", " + whose);
  }

  void read_states(const detail::PlanReader& from) {
    static constexpr std::array<std::string_view, 4> types{"F32", "F64", "BF16", "F8_E4M3"};
    layers = from.ids("layers");
    layer_ids = from.named<LayerIds>("layer_ids"), aux_stream = from.named<AuxStream>("aux_stream");
    from.one_of("last", std::array<std::string_view, 1>{last_state});
    dtype = *io::parse_dtype(types[from.one_of("dtype", types)]);
    const io::json& all = from.list("taps");
    if (all.empty()) throw Error(from.subject("taps"), "an empty list", "the states that are kept");
    for (const io::json& tap : all) {
      const detail::PlanReader one(tap, from.subject("taps"));
      taps.push_back({one.named<Tap::What>("state"), one.count("layer", 0)});
    }
  }
  void read_windows(const detail::PlanReader& from) {
    length = from.count("length", 1), shard_windows = from.count("shard", 1);
    training_windows = from.count("training", 0), held_out_windows = from.count("held_out", 0);
    packing = from.named<Packing>("packing"), sampling = from.named<WindowSampling>("sampling");
  }
};

}  // namespace K3SPEC_NAMESPACE
