#pragma once
/// \file
/// Everything: one paragraph per room, which says what the room defines.
/// defines: nothing of its own

// core: element types, shapes and views, owned and planned memory, parameters, random numbers, device tags, errors
#include <k3spec/core/arena.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/compiler.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/core/float_math.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/operand.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/core/scalar_math.hpp>
#include <k3spec/core/view.hpp>

// config: model dimensions as types, their names in config.json, what they must not say, conventions between engines
#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/change.hpp>
#include <k3spec/config/check.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/config/fields.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/config/parallel_options.hpp>
#include <k3spec/config/stop_tokens.hpp>

// expr: elementwise and row formulas, written once, with their derivatives
#include <k3spec/expr/check.hpp>
#include <k3spec/expr/functors.hpp>
#include <k3spec/expr/nodes.hpp>
#include <k3spec/expr/order.hpp>
#include <k3spec/expr/reads.hpp>
#include <k3spec/expr/reduce.hpp>
#include <k3spec/expr/results.hpp>
#include <k3spec/expr/walk.hpp>

// backend: loops, vector registers, matrix products and the evaluation of formulas on a device
#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/gemm_blocked.hpp>
#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/gemm_pack.hpp>
#include <k3spec/backend/cpu/gemm_packed.hpp>
#include <k3spec/backend/cpu/gemm_product.hpp>
#include <k3spec/backend/cpu/gemm_streamed.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/packet_lanes.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/reduce_row.hpp>
#include <k3spec/backend/cpu/row_env.hpp>
#include <k3spec/backend/cpu/thread_team.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/backend/cuda_driver.hpp>
#include <k3spec/backend/product.hpp>

// ops: functions of tensors, forward beside backward
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/ops/attention_tile.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/block_visibility.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/gated_activation.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/rms_norm.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/route.hpp>
#include <k3spec/ops/short_conv.hpp>
#include <k3spec/ops/sum_of_squares.hpp>
#include <k3spec/ops/ttt_attention.hpp>
#include <k3spec/ops/visibility.hpp>

// layers: ops with parameters
#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/layers/markov_head.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/layers/packed.hpp>

// losses: row formulas that compare a draft with its teacher
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/losses/lk_loss.hpp>
#include <k3spec/losses/log_softmax.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>

// drafts: the models that draft, their vocabulary and files
#include <k3spec/drafts/aux_projection.hpp>
#include <k3spec/drafts/block_backbone.hpp>
#include <k3spec/drafts/block_layer.hpp>
#include <k3spec/drafts/checkpoint_name.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/drafts/draft_folder.hpp>
#include <k3spec/drafts/draft_vocabulary.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_activations.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/drafts/engine_layout.hpp>

// target: the frozen Kimi K3, forward only: its layers, taps, what it remembers of a text
#include <k3spec/target/absorbed_attention.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/decoder_layer.hpp>
#include <k3spec/target/dense_mlp.hpp>
#include <k3spec/target/forward.hpp>
#include <k3spec/target/frozen_linear.hpp>
#include <k3spec/target/k3_target.hpp>
#include <k3spec/target/kda_attention.hpp>
#include <k3spec/target/latent_moe.hpp>
#include <k3spec/target/layout.hpp>
#include <k3spec/target/load.hpp>
#include <k3spec/target/mla_attention.hpp>
#include <k3spec/target/new_tokens.hpp>
#include <k3spec/target/state.hpp>
#include <k3spec/target/taps.hpp>

// io: safetensors files, sharded checkpoints, MXFP4 weights, config.json against a config
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/checkpoint.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/convert.hpp>
#include <k3spec/io/destination.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/draft_conventions.hpp>
#include <k3spec/io/engine_config.hpp>
#include <k3spec/io/field_comparison.hpp>
#include <k3spec/io/file_lock.hpp>
#include <k3spec/io/granted_fields.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/json_text.hpp>
#include <k3spec/io/json_value.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/mxfp4.hpp>
#include <k3spec/io/nemo_config.hpp>
#include <k3spec/io/outputs.hpp>
#include <k3spec/io/rope_config.hpp>
#include <k3spec/io/safetensors.hpp>
#include <k3spec/io/safetensors_header.hpp>
#include <k3spec/io/safetensors_reader.hpp>
#include <k3spec/io/safetensors_writer.hpp>
#include <k3spec/io/stop_tokens.hpp>
#include <k3spec/io/unknown_fields.hpp>

// decode: lossless draft-and-verify, of several texts together, and the plain decoding it equals
#include <k3spec/decode/block_heads.hpp>
#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/continuation.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/logit_processor.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/plain.hpp>
#include <k3spec/decode/running_texts.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/decode/stop_strings.hpp>
#include <k3spec/decode/target_session.hpp>
#include <k3spec/decode/truncation.hpp>
#include <k3spec/decode/verify.hpp>

// train: trainers, optimizer, schedule, checkpoints, metrics
#include <k3spec/train/adamw.hpp>
#include <k3spec/train/anchors.hpp>
#include <k3spec/train/block_batch.hpp>
#include <k3spec/train/block_methods.hpp>
#include <k3spec/train/block_metrics.hpp>
#include <k3spec/train/block_rows.hpp>
#include <k3spec/train/check_checkpoint.hpp>
#include <k3spec/train/checkpoint.hpp>
#include <k3spec/train/checkpoint_directory.hpp>
#include <k3spec/train/checkpoint_manifest.hpp>
#include <k3spec/train/dflash_objective.hpp>
#include <k3spec/train/documents.hpp>
#include <k3spec/train/dspark_heads.hpp>
#include <k3spec/train/dspark_objective.hpp>
#include <k3spec/train/eagle3_method.hpp>
#include <k3spec/train/fc_init.hpp>
#include <k3spec/train/fingerprint.hpp>
#include <k3spec/train/gradient_norm.hpp>
#include <k3spec/train/json_log.hpp>
#include <k3spec/train/metrics.hpp>
#include <k3spec/train/nothing_supervised.hpp>
#include <k3spec/train/progress.hpp>
#include <k3spec/train/run_lock.hpp>
#include <k3spec/train/run_sources.hpp>
#include <k3spec/train/schedule.hpp>
#include <k3spec/train/target_features.hpp>
#include <k3spec/train/target_states.hpp>
#include <k3spec/train/teacher.hpp>
#include <k3spec/train/text.hpp>
#include <k3spec/train/train_settings.hpp>
#include <k3spec/train/trainer.hpp>
#include <k3spec/train/ttt_batch.hpp>
#include <k3spec/train/ttt_loss.hpp>
#include <k3spec/train/ttt_objective.hpp>
