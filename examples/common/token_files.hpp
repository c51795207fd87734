#pragma once
/// \file
/// Files of tokens on the command line.
/// defines: token_files_help, add_bin_option, refuse_idle_bin

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <k3spec/io/token_files.hpp>

#include "arguments.hpp"

namespace k3spec::examples {

/// What a file of tokens may be. \param about  what stands before it
inline std::string token_files_help(const std::string& about) {
  return about +
         "a text, whose bytes are the tokens; ids as *.npy, *.uint16, *.uint32 or *.bin (--bin-type); *.safetensors or "
         "a folder of these, with input_ids, loss_mask, seq_lens; *.jsonl with input_ids, loss_mask";
}

/// The type of tokens in files that do not say it.
inline void add_bin_option(Arguments& arguments, std::optional<DType>& type) {
  arguments.add("--bin-type", "{uint16,uint32}", "Type of the tokens in files *.bin",
                [&type](const std::string& flag, Arguments::Values v) {
                  if (v[0] != "uint16" && v[0] != "uint32") {
                    throw UsageError(flag, shown_value(v[0]), "one of uint16, uint32");
                  }
                  type = v[0] == "uint16" ? DType::U16 : DType::U32;
                });
}

/// \throws UsageError when there is a type, but no file that wants it
inline void refuse_idle_bin(const std::optional<DType>& type, const std::vector<std::filesystem::path>& files) {
  if (!type) return;
  for (const auto& file : files) {
    if (io::token_format(file) == io::TokenFormat::bin) return;
  }
  throw UsageError("--bin-type", "it without a file *.bin", "one");
}

}  // namespace k3spec::examples
