# What only our own tests, examples and benchmarks are built with; none of it reaches a consumer.
add_library(k3spec_warnings INTERFACE)
target_compile_options(k3spec_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Werror>"
  # No -Wpedantic: what nvcc makes of a source for its host compiler is no ISO C++ (line directives, for one).
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wconversion,-Werror>")

add_library(k3spec_own INTERFACE)
target_link_libraries(k3spec_own INTERFACE k3spec::k3spec k3spec_warnings)
if(K3SPEC_SANITIZE)
  set(flags -fsanitize=${K3SPEC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(k3spec_own INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  target_link_options(k3spec_own INTERFACE ${flags})
endif()
