// expect: F == E
#include <k3spec/core/view.hpp>

k3spec::Matrix<float> any_width(k3spec::Rows<float, 8> a) { return a; }

#ifdef K3SPEC_EXPECT_FAIL
k3spec::Rows<float, 4> other_width(k3spec::Rows<float, 8> a) { return k3spec::Rows<float, 4>(a); }
#endif
