#pragma once
// An EAGLE-3 reference case in bfloat16: no reference, but a run in double on the same device, which the reference
// holds, on the inputs and parameters that bfloat16 left of the case's.
#include <map>
#include <string>
#include <vector>

#include <tests/parity/eagle3.hpp>
#include <tests/parity/eagle3_sides.hpp>

namespace k3spec::test {

/// The results of a case that has run, by name.
template <class Config, class T, class D>
std::map<std::string, std::vector<double>> eagle3_results(Eagle3Case<Config, T, D>& c, const TttNumbers& r) {
  std::map<std::string, std::vector<double>> all{{"loss", {r.loss}},
                                                 {"step_losses", {r.step_losses.begin(), r.step_losses.end()}},
                                                 {"step_alphas", {r.step_alphas.begin(), r.step_alphas.end()}},
                                                 {"grad aux", {c.d_aux.begin(), c.d_aux.end()}}};
  for (index_t k = 0; k < c.steps(); ++k) all["logits " + std::to_string(k)] = c.logits(k);
  const auto d_w = c.gradients.weights();
  Eagle3Draft<Config>::visit(d_w, Path{}, [&](const Path& path, const auto& view, auto) {
    if (view.data() != nullptr) all["grad " + path.str()] = {view.data(), view.data() + view.size()};
  });
  return all;
}

/// `wide` gets what `narrow` holds.
template <class Config, class D>
void widen(const Eagle3Case<Config, bfloat16, D>& narrow, Eagle3Case<Config, double, D>& wide) {
  std::copy(narrow.aux.begin(), narrow.aux.end(), wide.aux.begin());
  std::copy(narrow.target_logits.begin(), narrow.target_logits.end(), wide.target_logits.begin());
  wide.top = narrow.top;
  const auto from = narrow.parameters.weights();
  const auto to = wide.parameters.mutable_weights();
  std::vector<const bfloat16*> tensors;
  Eagle3Draft<Config>::visit(from, Path{}, [&](const Path&, const auto& v, auto) { tensors.push_back(v.data()); });
  std::size_t i = 0;
  Eagle3Draft<Config>::visit(to, Path{},
                             [&](const Path&, const auto& v, auto) { std::copy_n(tensors[i++], v.size(), v.data()); });
}

template <class Config, class D, bool HasSides>
void eagle3_in_bfloat16(const std::string& name) {
  Eagle3Case<Config, bfloat16, D> narrow(name);
  Eagle3Case<Config, double, D> wide(name);
  widen(narrow, wide);
  const auto found = eagle3_results(narrow, narrow.forward_backward());
  const TttNumbers result = wide.forward_backward();
  auto wanted = eagle3_results(wide, result);
  REQUIRE(HasSides == (wide.loss().lk == LkLoss::alpha));
  if constexpr (HasSides) {
    const auto logits = [&](const auto& of) {
      std::vector<std::vector<double>> all;
      for (index_t k = 0; k < wide.steps(); ++k) all.push_back(of.at("logits " + std::to_string(k)));
      return all;
    };
    AlphaAtSides<Config, D> alpha(wide, result);
    alpha.run(logits(wanted));
    for (const auto& own : eagle3_results(wide, result)) {
      INFO(name, ": ", own.first, " of double's own sides");
      CHECK(relative_error(own.second, wanted.at(own.first)) <= 1e-12);
    }
    alpha.run(logits(found));
    wanted = eagle3_results(wide, result);
  }
  for (const auto& result_of_double : wanted) {
    const std::string& what = result_of_double.first;
    const bool step = what.rfind("logits ", 0) == 0;
    const double error = relative_error(found.at(what), result_of_double.second);
    INFO(Config::folder, name, ": ", what, ": error ", error);
    CHECK(error <= bfloat16_tolerance(step ? std::stol(what.substr(7)) + 1 : wide.steps()));
  }
}

/// In float and double a case is compared with the reference.
/// \tparam HasSides  of the alpha loss, see AlphaAtSides
template <class Config, class T, class D, bool HasSides = false>
void eagle3_case(const std::string& name) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    eagle3_in_bfloat16<Config, D, HasSides>(name);
  } else {
    Eagle3Case<Config, T, D>(name).run();
  }
}

}  // namespace k3spec::test
