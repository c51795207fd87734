#pragma once
/// \file
/// The models that draft, and their losses, without files: for who has the weights already.
/// defines: nothing of its own

#include <k3spec/layers.hpp>

// losses: row formulas that compare a draft with its teacher
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/losses/lk_loss.hpp>
#include <k3spec/losses/log_softmax.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>

// drafts: the models that draft, and what their weights begin with (their vocabulary and files: io.hpp)
#include <k3spec/drafts/aux_projection.hpp>
#include <k3spec/drafts/block_backbone.hpp>
#include <k3spec/drafts/block_layer.hpp>
#include <k3spec/drafts/confidence_bins.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_activations.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/drafts/eagle3_head.hpp>
#include <k3spec/drafts/fc_init.hpp>
#include <k3spec/drafts/shift_ids_left.hpp>
