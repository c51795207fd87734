# The libraries that k3spec and its own parts are built with. Missing ones are named together in one sentence, each with
# the package that brings it on Debian and Ubuntu.

# k3spec_missing(<out> [<found> <library and package>]...): the libraries whose variable <found> is false.
function(k3spec_missing out)
  set(missing "")
  while(ARGN)
    list(POP_FRONT ARGN found library)
    if(NOT ${found})
      list(APPEND missing "${library}")
    endif()
  endwhile()
  list(JOIN missing ", " missing)
  set(${out} "${missing}" PARENT_SCOPE)
endfunction()

# What a consumer needs too.
macro(k3spec_find_libraries)
  find_package(Eigen3 3.4 QUIET)
  find_package(fmt QUIET)
  find_package(nlohmann_json QUIET)
  find_package(OpenMP QUIET COMPONENTS CXX)
  k3spec_missing(k3spec_missing Eigen3_FOUND "Eigen 3.4 (libeigen3-dev)" fmt_FOUND "fmt (libfmt-dev)"
                 nlohmann_json_FOUND "nlohmann_json (nlohmann-json3-dev)"
                 OpenMP_CXX_FOUND "OpenMP (it comes with g++; for clang++ libomp-dev)")
  if(k3spec_missing)
    message(FATAL_ERROR "k3spec: missing libraries, with their Debian packages: ${k3spec_missing}")
  endif()
endmacro()

# k3spec_part(<option> <what> [<found> <library and package>]...): sets the option to whether that part is built: AUTO
# where its libraries are found. As a subfolder k3spec builds nothing of its own unless asked.
function(k3spec_part option what)
  k3spec_missing(missing ${ARGN})
  set(build ${${option}})
  if(build STREQUAL AUTO)
    set(build ON)
    if(missing)
      message(STATUS "Not built: the ${what} (missing, with Debian packages: ${missing})")
      set(build OFF)
    endif()
  elseif(build AND missing)
    message(FATAL_ERROR "${option} is ${build}: missing libraries, with their Debian packages: ${missing}")
  endif()
  set(${option} ${build} PARENT_SCOPE)
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  set(k3spec_default AUTO)
else()
  set(k3spec_default OFF)
endif()
foreach(part TESTS EXAMPLES BENCH)
  set(K3SPEC_BUILD_${part} ${k3spec_default} CACHE STRING "AUTO (where the libraries are found), ON or OFF")
  set_property(CACHE K3SPEC_BUILD_${part} PROPERTY STRINGS AUTO ON OFF)
endforeach()

k3spec_find_libraries()
if(K3SPEC_BUILD_TESTS)
  find_package(doctest QUIET)
  k3spec_part(K3SPEC_BUILD_TESTS tests doctest_FOUND "doctest (doctest-dev)")
endif()
if(K3SPEC_BUILD_EXAMPLES)
  find_package(CLI11 QUIET)
  k3spec_part(K3SPEC_BUILD_EXAMPLES examples CLI11_FOUND "CLI11 (libcli11-dev)")
endif()
if(K3SPEC_BUILD_BENCH)
  find_package(benchmark QUIET)
  # The yardstick of the products; the library itself never uses it.
  find_path(K3SPEC_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas)
  find_library(K3SPEC_OPENBLAS openblas)
  set(k3spec_openblas FALSE)
  if(K3SPEC_CBLAS_INCLUDE AND K3SPEC_OPENBLAS)
    set(k3spec_openblas TRUE)
  endif()
  k3spec_part(K3SPEC_BUILD_BENCH benchmarks benchmark_FOUND "Google Benchmark (libbenchmark-dev)"
              k3spec_openblas "OpenBLAS (libopenblas-dev)")
endif()
