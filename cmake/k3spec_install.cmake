include(CMakePackageConfigHelpers)

# Headers are installed: neither `install` nor `package` builds the tests and programs first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)

install(DIRECTORY include/k3spec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What k3spec_add_programs compiles for a user's own types.
install(DIRECTORY examples/common examples/train_draft examples/speculate
        DESTINATION ${CMAKE_INSTALL_DATADIR}/k3spec/programs FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cpp")
install(FILES examples/capture.cpp examples/convert_draft.cpp examples/inspect.cpp examples/random_target.cpp
        DESTINATION ${CMAKE_INSTALL_DATADIR}/k3spec/programs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/k3spec)
install(TARGETS k3spec EXPORT k3spec)
install(EXPORT k3spec NAMESPACE k3spec:: FILE k3spec_targets.cmake DESTINATION ${package_dir})

configure_package_config_file(cmake/k3spec-config.cmake.in k3spec-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may break its users.
write_basic_package_version_file(k3spec-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/k3spec-config.cmake ${PROJECT_BINARY_DIR}/k3spec-config-version.cmake
              cmake/k3spec_find_libraries.cmake cmake/k3spec_march.cmake cmake/k3spec_rapidjson.cmake
              cmake/k3spec_add_cuda.cmake cmake/k3spec_add_programs.cmake cmake/k3spec_emit_config.cmake
        DESTINATION ${package_dir})

# For builds without CMake: the same options but for -march, which is the caller's.
set(pkgconfig_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH k3spec_pc_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" k3spec_pc_prefix "${k3spec_pc_prefix}")
list(JOIN host_options " " k3spec_pc_options)
configure_file(cmake/k3spec.pc.in k3spec.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/k3spec.pc DESTINATION ${pkgconfig_dir})
