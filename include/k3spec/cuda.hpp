#pragma once
/// \file
/// Everything of all.hpp, and the device tag Cuda: for translation units that nvcc compiles.
/// defines: nothing of its own

#include <k3spec/all.hpp>

// backend/cuda: streams, memory, errors, launches, formulas, products, and the ops with kernels of their own
#include <k3spec/backend/cuda/argmax.hpp>
#include <k3spec/backend/cuda/async_copy.hpp>
#include <k3spec/backend/cuda/attention.hpp>
#include <k3spec/backend/cuda/device.hpp>
#include <k3spec/backend/cuda/differentiate.hpp>
#include <k3spec/backend/cuda/embedding.hpp>
#include <k3spec/backend/cuda/error.hpp>
#include <k3spec/backend/cuda/evaluate.hpp>
#include <k3spec/backend/cuda/gather_columns.hpp>
#include <k3spec/backend/cuda/gemm.hpp>
#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/labels.hpp>
#include <k3spec/backend/cuda/lanes.hpp>
#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/backend/cuda/matrix_unit.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/move_rows.hpp>
#include <k3spec/backend/cuda/operands.hpp>
#include <k3spec/backend/cuda/reduce_row.hpp>
#include <k3spec/backend/cuda/rope.hpp>
#include <k3spec/backend/cuda/row_adjoints.hpp>
#include <k3spec/backend/cuda/shift_ids_left.hpp>
#include <k3spec/backend/cuda/shift_states.hpp>
#include <k3spec/backend/cuda/stream.hpp>
#include <k3spec/backend/cuda/sum_of_squares.hpp>
#include <k3spec/backend/cuda/team.hpp>
