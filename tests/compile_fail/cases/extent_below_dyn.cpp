// expect: an extent is either >= 0 or dyn
#include <k3spec/core/extents.hpp>

static_assert(k3spec::Extents<0, 3, k3spec::dyn>::rank == 3);

#ifdef K3SPEC_EXPECT_FAIL
static_assert(k3spec::Extents<-2, 3>::rank == 2);
#endif
