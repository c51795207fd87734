# A toolchain file for aarch64 with Debian's or Ubuntu's cross compiler; ctest runs what it builds under qemu-user. Of the
# libraries only fmt is more than headers: libfmt-dev:arm64, or a package that fmt_DIR names.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
find_program(CMAKE_CXX_COMPILER NAMES aarch64-linux-gnu-g++ aarch64-linux-gnu-g++-14 aarch64-linux-gnu-g++-13
                                      aarch64-linux-gnu-g++-12 REQUIRED)
find_program(K3SPEC_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
if(K3SPEC_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${K3SPEC_QEMU_AARCH64} -L /usr/aarch64-linux-gnu)
endif()
