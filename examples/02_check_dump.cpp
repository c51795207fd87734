// Compares a dump of a PyTorch module with a layer of this library, as README.md shows under "Numbers against your
// PyTorch module". Without a dump from dump_module.py it takes the bundled one, to be run where the project is.
#include <k3spec/testing.hpp>

using namespace k3spec;
using MLP = SiTUMLP<12, 20, configs::KimiK3>;

int main(int argc, char** argv) try {
  const testing::Dump dump(argc > 1 ? argv[1] : "examples/data/mlp.safetensors");
  Parameters<MLP, double> w;
  Gradients<MLP, double> d_w;
  dump.load(w);
  const auto x = dump.read<double>("input.0"), d_y = dump.read<double>("d_output.0");
  auto y = testing::like(d_y), d_x = testing::like(x);
  Arena arena(1 << 20);
  const auto saved = MLP::Saved<double>::allocate(arena, x.rows());
  MLP::forward(Cpu{}, w.weights(), x.as_rows<12>(), y.as_rows<12>(), saved);
  MLP::backward(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), x.as_rows<12>(), saved, d_y.as_rows<12>(),
                d_x.as_rows<12>());

  testing::Report report;
  report.compare(dump, "output.0", y);
  report.compare(dump, "grad.input.0", d_x);
  report.compare_all<MLP>(dump, "grad.param.", d_w.weights());
  report.require_all(dump);  // nothing was forgotten
  fmt::print("{}", report.text());
  return report.ok() ? 0 : 1;
} catch (const Error& error) {
  return fmt::print(stderr, "{}\n", error.what()), 1;
}
