// expect: rank == 2
#include <k3spec/core/view.hpp>

float first_column(k3spec::Rows<float, 6> a) { return a.columns<0, 2>()(0, 0); }

#ifdef K3SPEC_EXPECT_FAIL
float first_column(k3spec::View<float, k3spec::dyn, 2, 3> a) { return a.columns<0, 2>()(0, 0); }
#endif
