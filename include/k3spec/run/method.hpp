#pragma once
/// \file
/// What differs between kinds of drafts in training: a method owns the target and the objective. It has the types
/// value_type, device_type, Draft, Target, Teacher, Metrics, Totals, Conventions and Setup, and
/// ```text
/// check(setup, settings), vocabulary(setup), taps(setup)
///                                        static: what it refuses of both; the vocabulary the setup has; the states of
///                                        the target that its draft reads
/// initialize(settings, target weights, parameters)
///                                        static, on the host: what fresh parameters do not draw
/// Method(device, Teacher, setup, settings)
///                                        of what check lets through; Teacher is the target's TeachingTarget
/// count(device, weights, windows, MicroBatch)
///                                        Totals: what the batch adds to the step's denominators; slots are below the
///                                        accumulate of the settings that the Method was made with
/// forward_backward(device, weights, gradients, windows, MicroBatch, totals)
///                                        Metrics. Totals are of all the step's batches, each counted before; none:
///                                        there is one batch, not counted
/// evaluate(device, weights, windows, index)
///                                        Metrics; the same choices for the same index
/// metrics()                              those of nothing
/// vocabulary(), layer_ids(), conventions(), bytes(settings)
/// ```
/// The Draft is of the library's kinds or of one's own (run/own_draft.hpp), its parameters those of a layer. Metrics
/// also has +=, loss(), supervised(), accuracy(), simulated_accept_length(), depths() and depth_acceptance(depth), the
/// acceptance of tokens whose predecessors are accepted; visit(v), which calls v(name, value) for what else there is;
/// and, of drafts with a confidence head, calibration(), a ReliabilityCurve. Totals has +=.
/// defines: TrainingMethod, HasBackward

#include <k3spec/comm/summable.hpp>
#include <k3spec/core/device.hpp>

namespace K3SPEC_NAMESPACE {

/// Types that have what is said above, as far as a concept can see it without compiling them.
template <class M>
concept TrainingMethod =
    Device<typename M::device_type> && Summable<typename M::Metrics> && Summable<typename M::Totals>;

/// Whether there is a function for the gradients.
template <class M>
concept HasBackward = requires {
  &M::forward_backward;
};

}  // namespace K3SPEC_NAMESPACE
