# The libraries that the headers need. The package file uses this too. Missing ones are named together, each with the
# package that brings it on Debian and Ubuntu.

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

# k3spec_find_libraries(<out>): finds them; <out> names those that are missing.
macro(k3spec_find_libraries out)
  find_package(Eigen3 3.4 QUIET)
  find_package(fmt QUIET)
  find_package(RapidJSON QUIET)
  find_package(OpenMP QUIET COMPONENTS CXX)
  k3spec_missing(${out} Eigen3_FOUND "Eigen 3.4 (libeigen3-dev)" fmt_FOUND "fmt (libfmt-dev)"
                 RapidJSON_FOUND "RapidJSON (rapidjson-dev)"
                 OpenMP_CXX_FOUND "OpenMP (it comes with g++; for clang++ libomp-dev)")
endmacro()
