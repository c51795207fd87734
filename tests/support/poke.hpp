#pragma once
/// \file
/// A tensor's element in a file, changed.
/// defines: test::poke

#include <cstring>
#include <filesystem>
#include <string>

#include <k3spec/io/json.hpp>

#include "tests/support/temporary.hpp"

namespace k3spec::test {

/// \param at  the element's place in row-major order
template <class T>
void poke(const std::filesystem::path& file, const std::string& tensor, std::size_t at, T value) {
  std::string bytes = contents(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = io::parse_json(std::string_view(bytes).substr(8, length), file.string());
  const auto begin = 8 + length + header.at(tensor).at("data_offsets").at(0).get<std::uint64_t>();
  std::memcpy(bytes.data() + begin + at * sizeof(T), &value, sizeof(T));
  write(file, bytes);
}

}  // namespace k3spec::test
