#pragma once
/// \file
/// Training, with the drafts that are trained, the target that feeds them, and their files.
/// defines: nothing of its own

#include <k3spec/drafts.hpp>
#include <k3spec/io.hpp>
#include <k3spec/target.hpp>

// batches: tokens and documents, batches of both kinds of drafts, what the target says to them
#include <k3spec/batches/anchors.hpp>
#include <k3spec/batches/block_batch.hpp>
#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/feature_files.hpp>
#include <k3spec/batches/feature_plan.hpp>
#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/nothing_supervised.hpp>
#include <k3spec/batches/packed_windows.hpp>
#include <k3spec/batches/stored_features.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/batches/target_choices.hpp>
#include <k3spec/batches/target_features.hpp>
#include <k3spec/batches/target_states.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/batches/teaching_target.hpp>
#include <k3spec/batches/token_data.hpp>
#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/batches/uploaded_states.hpp>
#include <k3spec/batches/window_sampling.hpp>

// comm: ranks, and sums over all of them: of one rank, of threads
#include <k3spec/comm/communicator.hpp>
#include <k3spec/comm/single.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/comm/threads.hpp>

// objectives: what is learnt: the losses of whole batches, their gradients and metrics
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_chunk.hpp>
#include <k3spec/objectives/dspark_heads.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/objectives/reliability_curve.hpp>
#include <k3spec/objectives/ttt_chains.hpp>
#include <k3spec/objectives/ttt_loss.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/objectives/ttt_walk.hpp>

// optimiser: AdamW, Muon, EMA, the norm that clips gradients, the learning rate of a step
#include <k3spec/optimiser/adamw.hpp>
#include <k3spec/optimiser/ema.hpp>
#include <k3spec/optimiser/frozen_tensors.hpp>
#include <k3spec/optimiser/gradient_norm.hpp>
#include <k3spec/optimiser/muon.hpp>
#include <k3spec/optimiser/schedule.hpp>

// run: a training run: trainer, the methods it trains with, settings, checkpoints
#include <k3spec/run/block_batches.hpp>
#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/capture.hpp>
#include <k3spec/run/capture_folder.hpp>
#include <k3spec/run/check_checkpoint.hpp>
#include <k3spec/run/eagle3_method.hpp>
#include <k3spec/run/fresh_draft.hpp>
#include <k3spec/run/heldout_progress.hpp>
#include <k3spec/run/host_copies.hpp>
#include <k3spec/run/method.hpp>
#include <k3spec/run/own_draft.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/same_settings.hpp>
#include <k3spec/run/settings_json.hpp>
#include <k3spec/run/step_gradients.hpp>
#include <k3spec/run/text_cutter.hpp>
#include <k3spec/run/train_settings.hpp>
#include <k3spec/run/trained_draft.hpp>
#include <k3spec/run/trainer.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>
