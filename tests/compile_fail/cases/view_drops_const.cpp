// expect: is_convertible_v
#include <k3spec/core/view.hpp>

k3spec::Vector<const float> read_only(k3spec::Vector<float> a) { return a; }

#ifdef K3SPEC_EXPECT_FAIL
k3spec::Vector<float> writable(k3spec::Vector<const float> a) { return k3spec::Vector<float>(a); }
#endif
