#pragma once
/// \file
/// What the bundled programs are compiled for: the miniature in data/k3-tiny, whose tokens are bytes, and its drafts.
/// defines: k3_tiny::Target, k3_tiny::Eagle3, k3_tiny::Eagle31, k3_tiny::DeepSeekV3, k3_tiny::DeepSeekV3Eagle31,
/// k3_tiny::DFlash, k3_tiny::DSpark

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>

namespace k3_tiny {

using Target = k3spec::configs::KimiK3Tiny;
using Eagle3 = k3spec::configs::KimiK3Tiny;
using Eagle31 = k3spec::configs::Eagle31<Eagle3>;
using DeepSeekV3 = k3spec::configs::DeepSeekV3Tiny;
using DeepSeekV3Eagle31 = k3spec::configs::Eagle31<DeepSeekV3>;
using DFlash = k3spec::configs::KimiK3TinyDFlash;
using DSpark = k3spec::configs::KimiK3TinyDSpark;

}  // namespace k3_tiny
