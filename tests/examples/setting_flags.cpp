#include "examples/train_draft/setting_flags.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <k3spec/run/train_settings.hpp>

using namespace k3spec;

TEST_CASE("every setting has a flag in train_draft, but one") {
  std::vector<std::string> settings;
  TrainSettings all;
  TrainSettings::visit(all, [&](const char* name, const auto&...) { settings.emplace_back(name); });
  // How many steps a run may lose before it gives up is no choice of how it learns.
  CHECK(std::erase(settings, "max_skipped_in_a_row") == 1);
  for (const std::string& name : settings) {
    CAPTURE(name);
    const auto has = [&](const examples::SettingFlag& setting) { return setting.key == name; };
    CHECK(std::count_if(examples::setting_flags.begin(), examples::setting_flags.end(), has) == 1);
  }
  CHECK(examples::setting_flags.size() == settings.size());
}
