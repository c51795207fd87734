#pragma once
/// \file
/// Training, with the drafts that are trained, the target that feeds them, and their files.
/// defines: nothing of its own

#include <k3spec/drafts.hpp>
#include <k3spec/io.hpp>
#include <k3spec/target.hpp>

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
#include <k3spec/train/checkpoint_places.hpp>
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
