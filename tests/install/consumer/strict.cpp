// A consumer with strict warnings, to whom k3spec's headers are no system headers, and without RTTI.
#include <k3spec/all.hpp>
#include <k3spec/testing.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;

template class k3spec::Trainer<Eagle3Method<Config, Config, float>>;
template struct k3spec::DSparkDraft<configs::KimiK3TinyDSpark>;

testing::Report compare(const testing::Dump& dump, Gradients<Linear<3, 2>, float>& d_w, const Rows<const float, 2>& y) {
  testing::Report report;
  report.compare(dump, "output.0", y);
  report.compare(dump, "input.0", testing::like(dump.read<float>("input.0")));
  report.compare_all<Linear<3, 2>>(dump, "grad.param.", d_w.weights());
  auto z = dump.read<double>("output.0"), d_z = testing::like(z);
  testing::GradientCheck check;
  check.output(z.as_rows<2>(), d_z.as<dyn, 2>());
  report.add(check.run([] {}, [] {}));
  return report;
}

int main() {
  const int none = 0;  // a name of his own
  return none;
}
