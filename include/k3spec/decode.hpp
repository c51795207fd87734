#pragma once
/// \file
/// Draft-and-verify decoding, with the drafts and the target that it is of.
/// defines: nothing of its own

#include <k3spec/drafts.hpp>
#include <k3spec/target.hpp>

// decode: lossless draft-and-verify, of several texts together, and the plain decoding it equals
#include <k3spec/decode/acceptance_calibration.hpp>
#include <k3spec/decode/adaptive_length.hpp>
#include <k3spec/decode/block_heads.hpp>
#include <k3spec/decode/block_memory.hpp>
#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/continuation.hpp>
#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/decode_statistics.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/drafted_blocks.hpp>
#include <k3spec/decode/drafting.hpp>
#include <k3spec/decode/drafting_lists.hpp>
#include <k3spec/decode/eagle3_lists.hpp>
#include <k3spec/decode/eagle3_memory.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/host_row.hpp>
#include <k3spec/decode/logit_processor.hpp>
#include <k3spec/decode/next_token.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/plain.hpp>
#include <k3spec/decode/round_costs.hpp>
#include <k3spec/decode/rounds.hpp>
#include <k3spec/decode/running_texts.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/decode/session_sizes.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/decode/stop_strings.hpp>
#include <k3spec/decode/target_engine.hpp>
#include <k3spec/decode/target_rows.hpp>
#include <k3spec/decode/target_session.hpp>
#include <k3spec/decode/token_confidences.hpp>
#include <k3spec/decode/token_sampler.hpp>
#include <k3spec/decode/verify.hpp>
