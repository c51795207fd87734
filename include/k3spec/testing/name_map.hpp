#pragma once
/// \file
/// From a dump's names to one's own.
/// defines: testing::NameMap

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// How tensors of a dump are called here. With the prefix "model." and the pair {"fc1", "gate_proj"},
/// "model.param.fc1.weight" is "param.gate_proj.weight".
struct NameMap {
  /// Taken off the names that begin with it.
  std::string prefix;
  /// What stands in a name between dots, one part or several, and what stands there instead; nothing: it is left out.
  /// At each place the first that fits counts, and what it put there is not looked at again.
  std::vector<std::pair<std::string, std::string>> renamed;

  /// The name here of one in the dump.
  /// \param used  gets a true for each pair that was used, where it is not null; as long as `renamed`
  std::string operator()(std::string_view name, std::vector<bool>* used = nullptr) const {
    if (!prefix.empty() && name.starts_with(prefix)) name.remove_prefix(prefix.size());
    std::string out;
    const auto add = [&](std::string_view part) {
      if (!out.empty() && !part.empty()) out += '.';
      out += part;
    };
    while (!name.empty()) {
      std::size_t taken = name.find('.'), i = pair_at(name);
      if (i < renamed.size()) {
        taken = renamed[i].first.size();
        add(renamed[i].second);
        if (used != nullptr) (*used)[i] = true;
      } else {
        taken = std::min(taken, name.size());
        add(name.substr(0, taken));
      }
      name.remove_prefix(std::min(taken + 1, name.size()));
    }
    return out;
  }

 private:
  /// The first pair that fits the beginning of a name.
  std::size_t pair_at(std::string_view name) const {
    std::size_t i = 0;
    for (; i < renamed.size(); ++i) {
      const std::string& from = renamed[i].first;
      if (!from.empty() && name.starts_with(from) && (name.size() == from.size() || name[from.size()] == '.')) break;
    }
    return i;
  }
};

}  // namespace K3SPEC_NAMESPACE::testing
