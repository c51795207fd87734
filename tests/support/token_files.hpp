#pragma once
/// \file
/// Files of tokens for tests, of every kind.
/// defines: test::npy, test::raw, test::json_line, test::shard

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/io/safetensors.hpp>

namespace k3spec::test {

using Ids = std::vector<index_t>;
using LossMask = std::vector<std::uint8_t>;

/// Tokens as T, one behind the other.
template <class T>
std::string raw(const Ids& ids) {
  std::string bytes;
  for (const index_t id : ids) {
    const auto x = static_cast<T>(id);
    bytes.append(reinterpret_cast<const char*>(&x), sizeof(x));
  }
  return bytes;
}

/// A NumPy file with that header. \param version  1 or 2
inline std::string npy_file(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version, bytes += '\0';
  for (std::size_t i = 0; i < (version == 1 ? 2U : 4U); ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + data;
}
inline std::string npy_header(std::string_view type, std::size_t count) {
  return "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + std::to_string(count) +
         ",), }\n";
}
template <class T>
std::string npy(std::string_view type, const Ids& ids, char version = 1) {
  return npy_file(npy_header(type, ids.size()), raw<T>(ids), version);
}

/// A line of JSON lines. \param mask  empty: none
inline std::string json_line(const Ids& ids, const LossMask& mask = {}) {
  io::json line{{"input_ids", io::json(ids)}};
  if (!mask.empty()) line["loss_mask"] = io::json(mask);
  return line.dump() + "\n";
}

/// A safetensors file of a list of tokens. \param mask  empty: none  \param lengths  empty: none
inline void shard(const std::filesystem::path& path, const Ids& ids, const LossMask& mask = {},
                  const Ids& lengths = {}) {
  const std::vector<std::int32_t> tokens(ids.begin(), ids.end());
  const auto n = static_cast<index_t>(ids.size());
  std::vector<io::TensorSource> all{{"input_ids", DType::I32, {n}, tokens.data()}};
  if (!mask.empty()) all.push_back({"loss_mask", DType::U8, {static_cast<index_t>(mask.size())}, mask.data()});
  if (!lengths.empty()) {
    all.push_back({"seq_lens", DType::I64, {static_cast<index_t>(lengths.size())}, lengths.data()});
  }
  io::write_safetensors(path, all);
}

}  // namespace k3spec::test
