#pragma once
/// \file
/// How experts are chosen, on every device: the parameters of ops/route.hpp.
/// defines: Routing

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// How a config routes: of `groups` of experts those kept, of these the chosen ones.
template <class Config>
struct Routing {
  static constexpr index_t experts = Config::num_experts, chosen = Config::num_experts_per_token;
  static constexpr index_t groups = Config::num_expert_group, kept_groups = Config::topk_group;
  static constexpr index_t group_size = experts / groups;
  static constexpr bool has_groups = groups > kept_groups&& groups > 1;

  static_assert(experts > 0 && chosen > 0 && chosen <= experts, "routing: 1 to num_experts experts per token");
  static_assert(groups > 0 && experts % groups == 0, "routing: num_expert_group must divide num_experts");
  static_assert(kept_groups > 0 && kept_groups <= groups, "routing: topk_group must be 1 to num_expert_group");
  static_assert(!has_groups || (group_size >= 2 && kept_groups * group_size >= chosen),
                "routing: groups need two experts each, and those kept at least num_experts_per_token together");
};

}  // namespace K3SPEC_NAMESPACE
