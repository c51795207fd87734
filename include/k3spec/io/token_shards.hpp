#pragma once
/// \file
/// Tokens in safetensors files. Tensors: `input_ids`, a list of tokens, or rows of as many each; `loss_mask`, of the
/// same shape, 0 or 1; `seq_lens`, the documents' lengths. Without the last, a list is one document, and so is each
/// row.
/// defines: io::open_token_shard, io::open_token_shards

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/io/mapped_file.hpp>
#include <k3spec/io/safetensors_header.hpp>
#include <k3spec/io/token_part.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// The tensors of one file.
class TokenShard {
 public:
  explicit TokenShard(const std::filesystem::path& path)
      : file_(std::make_shared<const MappedFile>(path)),
        header_(parse_safetensors_header(file_->path(), file_->bytes())) {
    for (const auto& [name, info] : header_.tensors) {
      if (name == ids_name || name == mask_name || name == lengths_name) continue;
      throw Error(tensor_subject(file_->path(), name), "a tensor of that name",
                  "input_ids, loss_mask and seq_lens only");
    }
  }

  TokenPart part(index_t vocabulary) const {
    const TensorInfo* ids = find(ids_name);
    if (ids == nullptr) throw Error(tensor_subject(file_->path(), ids_name), "no such tensor", "a list of tokens");
    const std::size_t rank = ids->shape.size();
    if (rank != 1 && rank != 2) refuse(ids_name, "shape", shape_string(ids->shape), "one extent, or two");
    TokenPart out{file_, nullptr, column(ids_name, *ids), {}, {}};
    const TokenPlace place = place_in(ids->shape);
    check_tokens(subject(ids_name), out.ids, vocabulary, place);
    if (const TensorInfo* mask = find(mask_name)) {
      if (mask->shape != ids->shape) {
        refuse(mask_name, "shape", shape_string(mask->shape), shape_string(ids->shape) + ", as input_ids");
      }
      out.loss_mask = column(mask_name, *mask);
      check_mask(subject(mask_name), out.loss_mask, out.ids.count, place);
    }
    out.lengths = lengths(ids->shape, out.ids.count);
    return out;
  }

 private:
  static constexpr const char *ids_name = "input_ids", *mask_name = "loss_mask", *lengths_name = "seq_lens";

  std::string subject(const char* tensor) const { return tensor_subject(file_->path(), tensor); }
  [[noreturn]] void refuse(const char* tensor, const char* what, const std::string& found,
                           const std::string& wanted) const {
    throw Error(tensor_subject(file_->path(), tensor, what), found, wanted);
  }
  const TensorInfo* find(const char* tensor) const {
    const auto at = header_.tensors.find(tensor);
    return at == header_.tensors.end() ? nullptr : &at->second;
  }
  IntegerColumn column(const char* tensor, const TensorInfo& info) const {
    if (!is_integer(info.dtype)) refuse(tensor, "element type", std::string(name(info.dtype)), "integers");
    const auto count = static_cast<index_t>((info.end - info.begin) / size_of(info.dtype));
    return {file_->bytes().data() + header_.data_start + info.begin, info.dtype, count};
  }
  static TokenPlace place_in(const std::vector<index_t>& shape) {
    if (shape.size() == 1) return plain_place();
    return [columns = shape[1]](index_t i) {
      return "row " + std::to_string(i / columns) + ", token " + std::to_string(i % columns);
    };
  }
  std::vector<index_t> lengths(const std::vector<index_t>& shape, index_t tokens) const {
    if (const TensorInfo* given = find(lengths_name)) {
      if (given->shape.size() != 1) refuse(lengths_name, "shape", shape_string(given->shape), "one extent");
      return check_lengths(subject(lengths_name), column(lengths_name, *given), tokens);
    }
    if (shape.size() == 1) return {tokens};
    if (shape[1] == 0) return {};  // any number of rows of nothing
    return std::vector<index_t>(static_cast<std::size_t>(shape[0]), shape[1]);
  }

  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

}  // namespace detail

/// The tokens of one safetensors file.
/// \throws Error for every way a file can be malformed, on other tensors, shapes and types, on an id that the
///         vocabulary has not, and as check_mask and check_lengths do
inline TokenPart open_token_shard(const std::filesystem::path& path, index_t vocabulary) {
  return detail::TokenShard(path).part(vocabulary);
}

/// Those of all files NAME.safetensors of a folder, in the order of their names.
/// \throws Error as above, and when there is none
inline std::vector<TokenPart> open_token_shards(const std::filesystem::path& folder, index_t vocabulary) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  }
  if (failed) throw Error(folder.string(), failed.message(), "a folder that can be read");
  if (paths.empty()) throw Error(folder.string(), "a folder without files *.safetensors", "one with tokens");
  std::sort(paths.begin(), paths.end());
  std::vector<TokenPart> parts;
  for (const auto& path : paths) parts.push_back(open_token_shard(path, vocabulary));
  return parts;
}

}  // namespace K3SPEC_NAMESPACE::io
