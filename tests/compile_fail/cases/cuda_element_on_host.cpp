// What a card holds is not the host's to read, by place or by pointer.
// expect: is_placed<
// expect: Placed<float,
// errors: 2
// lines: 30
#include <k3spec/cuda.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
using D = Cuda;
#else
using D = Cpu;
#endif

float first(Vector<const element_t<D, float>> v) { return v(0); }
float at_pointer(Vector<const element_t<D, float>> v) { return *v.data(); }
