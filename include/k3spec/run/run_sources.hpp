#pragma once
/// \file
/// What a run's numbers come from beside its settings: the target, and the texts. A checkpoint carries their
/// fingerprints, so that a run does not go on with others unnoticed.
/// defines: host_fingerprint, DataFingerprints, RunSources, OtherData

#include <optional>
#include <string>

#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/text.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/config_json.hpp>

namespace K3SPEC_NAMESPACE {

/// Of a tensor or of bytes in the host's memory, by a device: the same on every device. One at a time is there.
template <Device D, class T, index_t... E>
Fingerprint host_fingerprint(const D& device, const View<const T, E...>& host) {
  const Held<D, T, E...> held(device, host);
  const auto bytes = static_cast<std::size_t>(host.size()) * sizeof(T);
  return fingerprint(device, {reinterpret_cast<const element_t<D, std::byte>*>(held.view().data()), bytes});
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

/// What the windows of a run are made from.
struct DataFingerprints {
  Fingerprint training, held_out;

  /// Those of two texts.
  template <Device D>
  static DataFingerprints of(const D& device, const ByteText& training, const ByteText& held_out) {
    const auto of_text = [&](const ByteText& text) {
      return host_fingerprint(device, Vector<const std::uint8_t>(text.bytes().data(), text.size()));
    };
    return {of_text(training), of_text(held_out)};
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
