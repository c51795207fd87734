#pragma once
/// \file
/// Everything. Each of these is an umbrella too, with one paragraph per room, which says what the room defines.
/// defines: nothing of its own

#include <k3spec/decode.hpp>
#include <k3spec/drafts.hpp>
#include <k3spec/io.hpp>
#include <k3spec/layers.hpp>
#include <k3spec/target.hpp>
#include <k3spec/train.hpp>
