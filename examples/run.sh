#!/usr/bin/env bash
# The main job: installs missing packages, builds the examples, trains a draft for k3-tiny from random values and lets it
# draft for the target on held-out text. Extra arguments go to train_draft.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="${K3SPEC_BUILD_DIR:-build}"
target=examples/data/k3-tiny
draft="$build/draft-k3-tiny"

bash cmake/install_packages.sh
cmake -S . -B "$build" -G Ninja
cmake --build "$build" --parallel "$(nproc)" --target train_draft speculate

rm -rf "$draft"
"$build/examples/train_draft" --device cpu --target "$target" --output "$draft" "$@"
"$build/examples/speculate" --device cpu --target "$target" --draft "$draft/latest"
