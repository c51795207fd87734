#pragma once
/// \file
/// What models are made of: tensors and their memory, configs, formulas, products, ops, layers. No file is read here:
/// it costs less than one and a half times what Eigen does to compile.
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
#include <k3spec/core/held.hpp>
#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/core/operand.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/permutation.hpp>
#include <k3spec/core/placed.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/core/scalar_math.hpp>
#include <k3spec/core/staging.hpp>
#include <k3spec/core/target_device.hpp>
#include <k3spec/core/unread.hpp>
#include <k3spec/core/version.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/core/workspace.hpp>

// config: model dimensions as types, their names in config.json, what they must not say, conventions between engines
#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/change.hpp>
#include <k3spec/config/check.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/config/eagle3.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/config/fields.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/config/parallel_options.hpp>
#include <k3spec/config/rope_scaling.hpp>
#include <k3spec/config/stop_tokens.hpp>

// expr: elementwise and row formulas, written once, with their derivatives
#include <k3spec/expr/check.hpp>
#include <k3spec/expr/derivatives.hpp>
#include <k3spec/expr/functors.hpp>
#include <k3spec/expr/nodes.hpp>
#include <k3spec/expr/order.hpp>
#include <k3spec/expr/reads.hpp>
#include <k3spec/expr/reduce.hpp>
#include <k3spec/expr/results.hpp>
#include <k3spec/expr/walk.hpp>

// backend: what every device is handed; loops, vector registers, matrix products, attention and the evaluation of
// formulas on a device
#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/block_problem.hpp>
#include <k3spec/backend/block_visibility.hpp>
#include <k3spec/backend/chain_attention.hpp>
#include <k3spec/backend/cpu/argmax.hpp>
#include <k3spec/backend/cpu/attention_residual.hpp>
#include <k3spec/backend/cpu/attention_tile.hpp>
#include <k3spec/backend/cpu/batch_parts.hpp>
#include <k3spec/backend/cpu/block_attention.hpp>
#include <k3spec/backend/cpu/chain_attention.hpp>
#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/backend/cpu/embedding.hpp>
#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/gemm_blocked.hpp>
#include <k3spec/backend/cpu/gemm_grouped.hpp>
#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/gemm_pack.hpp>
#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/backend/cpu/gemm_product.hpp>
#include <k3spec/backend/cpu/gemm_streamed.hpp>
#include <k3spec/backend/cpu/kda.hpp>
#include <k3spec/backend/cpu/lane_chains.hpp>
#include <k3spec/backend/cpu/latent_attention.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/move_rows.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/packet_lanes.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/reduce_row.hpp>
#include <k3spec/backend/cpu/rope.hpp>
#include <k3spec/backend/cpu/route.hpp>
#include <k3spec/backend/cpu/row_env.hpp>
#include <k3spec/backend/cpu/running_softmax.hpp>
#include <k3spec/backend/cpu/sampling.hpp>
#include <k3spec/backend/cpu/shift_ids_left.hpp>
#include <k3spec/backend/cpu/short_conv.hpp>
#include <k3spec/backend/cpu/sum_of_squares.hpp>
#include <k3spec/backend/cpu/thread_team.hpp>
#include <k3spec/backend/cpu/truncate.hpp>
#include <k3spec/backend/cpu/ttt_attention.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/backend/cpu/verify.hpp>
#include <k3spec/backend/cuda_driver.hpp>
#include <k3spec/backend/distribution.hpp>
#include <k3spec/backend/grouped_product.hpp>
#include <k3spec/backend/interval.hpp>
#include <k3spec/backend/kda_problem.hpp>
#include <k3spec/backend/latent_attention_problem.hpp>
#include <k3spec/backend/move_rows.hpp>
#include <k3spec/backend/placed_weights.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/backend/rope_problem.hpp>
#include <k3spec/backend/route_problem.hpp>
#include <k3spec/backend/route_row.hpp>
#include <k3spec/backend/sampling.hpp>
#include <k3spec/backend/truncation.hpp>
#include <k3spec/backend/ttt_problem.hpp>
#include <k3spec/backend/verify_problem.hpp>
#include <k3spec/backend/visibility.hpp>

// ops: functions of tensors, forward beside backward
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/chain_attention.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/gated_activation.hpp>
#include <k3spec/ops/gather_rows.hpp>
#include <k3spec/ops/grouped_gemm.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/move_rows.hpp>
#include <k3spec/ops/rms_norm.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>
#include <k3spec/ops/route.hpp>
#include <k3spec/ops/short_conv.hpp>
#include <k3spec/ops/sum_of_squares.hpp>
#include <k3spec/ops/ttt_attention.hpp>

// layers: ops with parameters
#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/latent_keys.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/layers/markov_head.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/layers/prepacked.hpp>
