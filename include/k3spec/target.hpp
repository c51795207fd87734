#pragma once
/// \file
/// The frozen target, and its loading.
/// defines: nothing of its own

// target: the frozen Kimi K3, forward only: its layers, taps, what it remembers of a text
#include <k3spec/target/absorbed_attention.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/decoder_layer.hpp>
#include <k3spec/target/dense_mlp.hpp>
#include <k3spec/target/forward.hpp>
#include <k3spec/target/k3_target.hpp>
#include <k3spec/target/kda_attention.hpp>
#include <k3spec/target/latent_moe.hpp>
#include <k3spec/target/layout.hpp>
#include <k3spec/target/load.hpp>
#include <k3spec/target/mla_attention.hpp>
#include <k3spec/target/new_tokens.hpp>
#include <k3spec/target/prepacked_linear.hpp>
#include <k3spec/target/save.hpp>
#include <k3spec/target/scratch.hpp>
#include <k3spec/target/stacked_weights.hpp>
#include <k3spec/target/state.hpp>
#include <k3spec/target/taps.hpp>
