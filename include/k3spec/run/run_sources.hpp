#pragma once
/// \file
/// What a run's numbers come from beside its settings: the target, and the data. A checkpoint carries their
/// fingerprints, so that a run does not go on with others unnoticed.
/// defines: host_fingerprint, data_fingerprint, DataFingerprints, RunSources, OtherData

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/token_data.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/config_json.hpp>

namespace K3SPEC_NAMESPACE {

/// Of a tensor or of bytes in the host's memory, by a device: the same on every device. One at a time is there.
/// \param before  see fingerprint
template <Device D, class T, index_t... E>
Fingerprint host_fingerprint(const D& device, const View<const T, E...>& host, Fingerprint before = {}) {
  const Held<D, T, E...> held(device, host);
  const auto bytes = static_cast<std::size_t>(host.size()) * sizeof(T);
  return fingerprint(device, {reinterpret_cast<const element_t<D, std::byte>*>(held.view().data()), bytes}, before);
}
/// The same of a tensor that is still to be read, as if it were there.
template <Device D, class T, index_t... E>
Fingerprint host_fingerprint(const D& device, const View<Unread<T>, E...>& unread) {
  return host_fingerprint(device, on_host(unread).view());
}
/// Of a model's parameters in the host's memory or still to be read, as they are held: in another type they have
/// another one.
template <class Model, Device D, class Weights>
Fingerprint host_fingerprint(const D& device, const Weights& weights) {
  Fingerprint all;
  Model::visit(weights, Path{}, [&](const Path&, const auto& view, auto) {
    all.bits = detail::mix(all.bits, host_fingerprint(device, view).bits);
  });
  return all;
}

namespace detail {

/// Of numbers that read(begin, numbers) gives, some blocks of them at a time.
template <class T, Device D, class F>
Fingerprint fingerprint_of(const D& device, index_t count, F&& read) {
  constexpr index_t most = 4 * hash_block / static_cast<index_t>(sizeof(T));
  std::vector<T> piece(static_cast<std::size_t>(std::min(count, most)));
  Fingerprint all;
  for (index_t begin = 0; begin < count; begin += most) {
    const index_t n = std::min(most, count - begin);
    read(begin, std::span(piece).first(static_cast<std::size_t>(n)));
    all = host_fingerprint(device, Vector<const T>(piece.data(), n), all);
  }
  return all;
}

/// As the narrowest numbers that hold them, whatever their files have: a text's are its bytes.
template <class T, Device D>
Fingerprint token_fingerprint(const D& device, const TokenData& data) {
  std::vector<index_t> ids;
  return fingerprint_of<T>(device, data.size(), [&](index_t begin, std::span<T> out) {
    ids.resize(out.size());
    data.read(begin, ids);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(ids[i]);
  });
}

}  // namespace detail

/// Of what a run sees of its data: tokens, loss mask and, where documents are apart, these. The same tokens in a file
/// of another kind have the same. \throws Error when a file was cut since it was opened
template <Device D>
Fingerprint data_fingerprint(const D& device, const TokenData& data, Packing packing) {
  const index_t most = data.largest();
  Fingerprint all = most < 1 << 8    ? detail::token_fingerprint<std::uint8_t>(device, data)
                    : most < 1 << 16 ? detail::token_fingerprint<std::uint16_t>(device, data)
                                     : detail::token_fingerprint<std::int64_t>(device, data);
  if (data.has_mask()) {
    const auto mask = detail::fingerprint_of<std::uint8_t>(
        device, data.size(), [&](index_t begin, std::span<std::uint8_t> out) { data.read_mask(begin, out); });
    all.bits = detail::mix(detail::mix(all.bits, 1), mask.bits);
  }
  if (packing == Packing::none) return all;
  const std::span<const index_t> ends = data.document_ends();
  const auto documents =
      host_fingerprint(device, Vector<const index_t>(ends.data(), static_cast<index_t>(ends.size())));
  all.bits = detail::mix(detail::mix(all.bits, 2), documents.bits);
  return all;
}

/// What the windows of a run are made from.
struct DataFingerprints {
  Fingerprint training, held_out;

  /// Those of data that a run with this packing sees.
  template <Device D>
  static DataFingerprints of(const D& device, const TokenData& training, const TokenData& held_out, Packing packing) {
    return {data_fingerprint(device, training, packing), data_fingerprint(device, held_out, packing)};
  }
  bool operator==(const DataFingerprints&) const = default;
};

/// What a run does that goes on with another text than it was begun with.
enum class OtherData { refuse, take };

/// What a run was started on.
struct RunSources {
  Fingerprint target;                    ///< of the parameters, as the run holds them
  std::optional<DataFingerprints> data;  ///< none: windows that the caller made

  io::json to_json() const {
    io::json j{{"target", target.text()}, {"training_text", nullptr}, {"heldout_text", nullptr}};
    if (data) j["training_text"] = data->training.text(), j["heldout_text"] = data->held_out.text();
    return j;
  }

  /// Reads them from a checkpoint's JSON.
  /// \throws Error naming the fingerprint that is absent or none
  static RunSources from_json(const io::json& j, const std::string& subject) {
    RunSources sources{read(j, "target", subject), std::nullopt};
    const bool none = at(j, "training_text", subject).is_null() && at(j, "heldout_text", subject).is_null();
    if (!none) sources.data = {read(j, "training_text", subject), read(j, "heldout_text", subject)};
    return sources;
  }

  /// Throws Error unless a run of these texts is a run of `own`.
  void check_data(const std::optional<DataFingerprints>& own, const std::string& subject) const {
    const RunSources wanted{target, own};
    check_same(wanted, "training_text", subject);
    check_same(wanted, "heldout_text", subject);
  }
  /// Throws Error unless a run of this target is a run of `own`.
  void check_target(const Fingerprint& own, const std::string& subject) const {
    check_same({own, data}, "target", subject);
  }

 private:
  static const io::json& at(const io::json& j, const char* name, const std::string& subject) {
    const auto found = j.is_object() ? j.find(name) : j.end();
    if (found == j.end()) throw Error(subject + ": " + name, "nothing", "a fingerprint");
    return *found;
  }

  static Fingerprint read(const io::json& j, const char* name, const std::string& subject) {
    const io::json& found = at(j, name, subject);
    const std::string text = found.is_string() ? found.get<std::string>() : std::string();
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw Error(subject + ": " + name, io::detail::excerpt(found), "16 hexadecimal digits");
    }
    return {std::stoull(text, nullptr, 16)};
  }

  void check_same(const RunSources& own, const char* name, const std::string& subject) const {
    const io::json found = to_json()[name], wanted = own.to_json()[name];
    if (found != wanted) throw Error(subject + ": " + name, found.dump(), wanted.dump() + ", that of this run");
  }
};

}  // namespace K3SPEC_NAMESPACE
