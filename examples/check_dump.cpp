// Compares a dump of a PyTorch module with a layer of this library, as README.md shows under "Numbers against your
// PyTorch module". dump_module.py makes the dump.
#include <k3spec/testing.hpp>

#include "common/program.hpp"

using namespace k3spec;
using MLP = SiTUMLP<12, 20, configs::KimiK3>;

testing::Report check_mlp(const testing::Dump& dump) {
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
  return report;
}

int main(int argc, char** argv) {
  const char* about = "Compares a dump of a PyTorch module with a layer of this library.";
  return examples::run_program("check_dump", about, [&](examples::Arguments& arguments) {
    std::filesystem::path path;
    arguments.path("dump", path, "A safetensors file that dump_module.py wrote")->required();
    arguments.parse(argc, argv);
    const testing::Report report = check_mlp(testing::Dump(path));
    fmt::print("{}", report.text());
    if (!report.ok()) throw Error(path.string(), "other numbers than the layer's", "the same");
  });
}
