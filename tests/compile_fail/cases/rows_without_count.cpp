// expect: dynamic_rank == 0
#include <k3spec/core/view.hpp>

k3spec::View<float, 2, 3> whole(float* data) { return k3spec::View<float, 2, 3>(data); }

#ifdef K3SPEC_EXPECT_FAIL
k3spec::Rows<float, 3> unknown_rows(float* data) { return k3spec::Rows<float, 3>(data); }
#endif
