// expect: a buffer's elements are bytes to it: trivially copyable
#include <k3spec/core/buffer.hpp>

k3spec::Buffer<float> numbers;

#ifdef K3SPEC_EXPECT_FAIL
k3spec::Buffer<std::string> words;
#endif
