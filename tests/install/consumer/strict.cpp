// A consumer with strict warnings, to whom k3spec's headers are no system headers, and without RTTI.
#include <k3spec/all.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;

template class k3spec::Trainer<Eagle3Method<Config, Config, float>>;
template struct k3spec::DSparkDraft<configs::KimiK3TinyDSpark>;

int main() {
  const int none = 0;  // a name of his own
  return none;
}
