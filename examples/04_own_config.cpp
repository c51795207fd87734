// A model of another size is another type: its parameters are counted when compiling, and a checkpoint of another model
// is refused, field by field. To be run where the project is.
#include <k3spec/config/change.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/layers/gated_mlp.hpp>

using namespace k3spec;

/// The bundled miniature, half as wide and with fewer experts.
struct Mine : configs::KimiK3Tiny {
  K3SPEC_CHANGE(KimiK3Tiny, hidden_size, 64);
  K3SPEC_CHANGE(KimiK3Tiny, target_hidden_size, 64);
  K3SPEC_CHANGE(KimiK3Tiny, num_experts, 12);
};
using MLP = SiTUMLP<Mine::hidden_size, Mine::intermediate_size, Mine>;
static_assert(parameter_count<MLP> == 3 * 64 * 256);

int main() {
  typename MLP::Weights<float> w;
  MLP::visit(w, Path{} / "mlp",
             [](const Path& at, const auto& view, auto) { fmt::print("{}: {} parameters\n", at.str(), view.size()); });

  const std::string file = "examples/data/k3-tiny/config.json";
  (void)io::check_target_config<configs::KimiK3Tiny>(io::read_json(file), file);
  try {
    (void)io::check_target_config<Mine>(io::read_json(file), file);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    const auto names = [&](const char* field) {
      return std::string_view(error.what()).find(field) != std::string::npos;
    };
    return names("hidden_size: found 128, wanted 64") && names("num_experts: found 16, wanted 12") ? 0 : 1;
  }
  return 1;
}
