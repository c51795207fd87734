#pragma once
/// \file
/// Files: checkpoints and configs, and how drafts are stored in them.
/// defines: nothing of its own

// io: safetensors files, sharded checkpoints, MXFP4 weights, config.json against a config, or as a config's type
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/config_members.hpp>
#include <k3spec/io/convert.hpp>
#include <k3spec/io/destination.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/draft_conventions.hpp>
#include <k3spec/io/emit_config.hpp>
#include <k3spec/io/emitted_drafts.hpp>
#include <k3spec/io/emitted_model.hpp>
#include <k3spec/io/engine_config.hpp>
#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/file_lock.hpp>
#include <k3spec/io/granted_fields.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/integer_column.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/json_text.hpp>
#include <k3spec/io/json_type.hpp>
#include <k3spec/io/json_value.hpp>
#include <k3spec/io/json_writer.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/mapped_file.hpp>
#include <k3spec/io/member_rules.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/mxfp4.hpp>
#include <k3spec/io/nemo_config.hpp>
#include <k3spec/io/npy.hpp>
#include <k3spec/io/outputs.hpp>
#include <k3spec/io/rope_config.hpp>
#include <k3spec/io/safetensors.hpp>
#include <k3spec/io/safetensors_header.hpp>
#include <k3spec/io/safetensors_reader.hpp>
#include <k3spec/io/safetensors_writer.hpp>
#include <k3spec/io/stop_tokens.hpp>
#include <k3spec/io/stored_tensor.hpp>
#include <k3spec/io/target_config.hpp>
#include <k3spec/io/target_roster.hpp>
#include <k3spec/io/tensor_tally.hpp>
#include <k3spec/io/token_files.hpp>
#include <k3spec/io/token_lines.hpp>
#include <k3spec/io/token_part.hpp>
#include <k3spec/io/token_shards.hpp>
#include <k3spec/io/type_name.hpp>
#include <k3spec/io/unknown_fields.hpp>

// of drafts: how they are found, loaded, saved and handed to engines
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/io/draft_folder.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/io/engine_layout.hpp>

// of runs: the folder of checkpoints, whose it is, and the log
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/checkpoint_link.hpp>
#include <k3spec/io/checkpoint_manifest.hpp>
#include <k3spec/io/checkpoint_name.hpp>
#include <k3spec/io/checkpoint_places.hpp>
#include <k3spec/io/json_log.hpp>
#include <k3spec/io/newest_checkpoint.hpp>
#include <k3spec/io/run_lock.hpp>
