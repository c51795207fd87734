include(CMakePackageConfigHelpers)

# Headers are installed: neither `install` nor `package` builds the tests and programs first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)

install(DIRECTORY include/k3spec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/k3spec)
install(TARGETS k3spec EXPORT k3spec)
install(EXPORT k3spec NAMESPACE k3spec:: FILE k3spec_targets.cmake DESTINATION ${package_dir})

configure_package_config_file(cmake/k3spec-config.cmake.in k3spec-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may break its users.
write_basic_package_version_file(k3spec-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/k3spec-config.cmake ${PROJECT_BINARY_DIR}/k3spec-config-version.cmake
              cmake/k3spec_find_libraries.cmake cmake/k3spec_march.cmake cmake/k3spec_rapidjson.cmake
              cmake/k3spec_add_cuda.cmake
        DESTINATION ${package_dir})
