#pragma once
/// \file
/// defines: test::added_up, test::terms

#include <vector>

#include <k3spec/backend/attention_problem.hpp>

namespace k3spec::test {

/// log Σ exp(s) of each query as one number.
template <class S>
std::vector<S> added_up(const std::vector<LogSumExp<S>>& log_sums) {
  std::vector<S> out;
  for (const LogSumExp<S>& x : log_sums) out.push_back(x.top + x.log_mass);
  return out;
}

/// Both terms of each query, one after the other.
template <class S>
std::vector<S> terms(const std::vector<LogSumExp<S>>& log_sums) {
  std::vector<S> out;
  for (const LogSumExp<S>& x : log_sums) out.push_back(x.top), out.push_back(x.log_mass);
  return out;
}

}  // namespace k3spec::test
