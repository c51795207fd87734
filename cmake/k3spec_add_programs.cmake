# k3spec_add_programs(<name> HEADER <header> TARGET <type> DRAFTS <type>... [DTYPES <type>...] [LIBRARIES <library>...]
#                     [CUDA] [BARE])
#
# Adds the programs train_draft, speculate, capture, inspect, convert_draft and random_target, compiled for a target's
# config and configs of its drafts, all of which the header defines; names may be qualified. The targets are
# <name>_train_draft and so on, and <name>, which builds all; the programs lie in the folder <name> of the current binary
# folder.
#   DRAFTS     one or more. Each is compiled in a unit of its own; types with a comma between them share one, which is
#              quicker where they are much alike, but takes more memory
#   DTYPES     float, bfloat16 or both: what train_draft can train in. The first is its default; not given: float alone.
#              A unit of each draft is compiled for each
#   CUDA       train_draft's --device cuda: a unit more of each draft and dtype, compiled by nvcc. The language CUDA must be
#              enabled, for architectures of 80 or newer (CMAKE_CUDA_ARCHITECTURES), and the CUDA toolkit be there
#   LIBRARIES  that the programs are linked with, too; the header may include what they bring
#   BARE       targets are named as the programs, which lie in the current binary folder
include_guard()

# Where the sources are: in the source tree, or where they are installed beside this file's folder.
function(k3spec_programs_folder out)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../examples)
  if(NOT EXISTS ${folder}/common/compiled_in.hpp)
    set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../k3spec/programs)
  endif()
  get_filename_component(folder ${folder} ABSOLUTE)
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# k3spec_include_folders(<out> <library>...): where headers are found by what is linked with k3spec and the libraries.
function(k3spec_include_folders out)
  set(includes "")
  foreach(library k3spec::k3spec Eigen3::Eigen fmt::fmt k3spec::rapidjson CLI11::CLI11 ${ARGN})
    if(TARGET ${library})
      get_target_property(of_library ${library} INTERFACE_INCLUDE_DIRECTORIES)
      if(of_library)
        list(APPEND includes ${of_library})
      endif()
    endif()
  endforeach()
  list(TRANSFORM includes REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1")
  list(FILTER includes EXCLUDE REGEX "\\$<")
  list(REMOVE_DUPLICATES includes)
  set(${out} ${includes} PARENT_SCOPE)
endfunction()

# k3spec_check_types(<name> <header> <include folders> <target> <draft>...): whether the header compiles, and defines
# the types. Of a name that is missing the compiler would say much.
function(k3spec_check_types name header includes target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_programs)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(begin "#include \"${header}\"
template <class T> concept k3spec_is_target = requires { T::full_attn_layers; };
template <class T> concept k3spec_is_draft = requires { T::num_aux_hidden_states; } || requires { T::block_size; };\n")
  set(all "static_assert(k3spec_is_target<::${target}>);\n")
  foreach(draft IN LISTS ARGN)
    string(APPEND all "static_assert(k3spec_is_draft<::${draft}>);\n")
  endforeach()
  k3spec_try(fine said "${begin}${all}")
  if(fine)
    return()
  endif()
  set(who "k3spec_add_programs(${name})")
  k3spec_try(fine said "#include \"${header}\"\n")
  if(NOT fine)
    string(REGEX MATCH "[^\n]*error: [^\n]*" first "${said}")
    message(FATAL_ERROR "${who}: HEADER ${header} does not compile: ${first}")
  endif()
  foreach(type ${target} ${ARGN})
    k3spec_try(fine said "#include \"${header}\"\nstatic_assert(sizeof(::${type}) > 0);\n")
    if(NOT fine)
      message(FATAL_ERROR "${who}: found no type ${type} in ${header}, wanted a config that is defined there")
    endif()
  endforeach()
  foreach(draft IN LISTS ARGN)
    k3spec_try(fine said "${begin}static_assert(k3spec_is_draft<::${draft}>);\n")
    if(NOT fine)
      message(FATAL_ERROR "${who}: DRAFTS: found ${draft}, which is no draft's config, wanted one derived from "
                          "k3spec::configs::Eagle3, DFlash or DSpark")
    endif()
  endforeach()
  message(FATAL_ERROR "${who}: TARGET: found ${target}, which is no target's config, wanted one derived from "
                      "k3spec::configs::KimiK3Target")
endfunction()

# k3spec_try(<out> <output> <source>): whether a source compiles. Of k3spec_check_types, whose variables it reads.
function(k3spec_try out output text)
  file(WRITE ${folder}/check.cpp "${text}")
  try_compile(compiles ${folder}/check SOURCES ${folder}/check.cpp CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}"
              OUTPUT_VARIABLE said CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  set(${out} ${compiles} PARENT_SCOPE)
  set(${output} "${said}" PARENT_SCOPE)
endfunction()

# k3spec_write_programs(<folder> <header> <target> <dtypes> <cuda> <unit>...): what is compiled beside the sources;
# dtypes, and the types of a unit, have commas between them; cuda is ON where there are units for cards.
function(k3spec_write_programs folder header target dtypes cuda)
  set(places Cpu)
  set(extension_Cpu .cpp)
  set(source_Cpu draft)
  set(compiled_for_cuda false)
  if(cuda)
    list(APPEND places Cuda)
    set(extension_Cuda _cuda.cu)
    set(source_Cuda cuda)
    set(compiled_for_cuda true)
  endif()
  string(REPLACE "," ";" dtypes "${dtypes}")
  k3spec_programs_folder(sources)
  set(types "")
  set(names "")
  set(number 0)
  foreach(unit IN LISTS ARGN)
    string(REPLACE "," ";" unit "${unit}")
    foreach(dtype IN LISTS dtypes)
      foreach(place IN LISTS places)
        set(train "#include \"${sources}/train_draft/${source_${place}}.hpp\"\n\n")
        foreach(type IN LISTS unit)
          string(APPEND train "template int k3spec::examples::train<::${type}, k3spec::examples::dtype_${dtype}, "
                              "k3spec::${place}>(const k3spec::examples::Job&);\n")
        endforeach()
        file(CONFIGURE OUTPUT ${folder}/train_draft_${number}_${dtype}${extension_${place}} CONTENT "${train}" @ONLY)
      endforeach()
    endforeach()
    set(enter "#include \"${sources}/speculate/draft.hpp\"\n\n")
    foreach(type IN LISTS unit)
      string(APPEND enter "template k3spec::examples::Entry k3spec::examples::enter<::${type}>("
                          "const std::filesystem::path&, k3spec::index_t, const k3spec::DecodeOptions&);\n")
      list(APPEND types "::${type}")
      list(APPEND names "\"${type}\"")
    endforeach()
    file(CONFIGURE OUTPUT ${folder}/speculate_${number}.cpp CONTENT "${enter}" @ONLY)
    math(EXPR number "${number} + 1")
  endforeach()
  list(TRANSFORM dtypes PREPEND dtype_)
  list(JOIN dtypes ", " dtypes)
  list(JOIN types ", " types)
  list(JOIN names ", " names)
  file(CONFIGURE OUTPUT ${folder}/k3spec_programs.hpp @ONLY CONTENT "#pragma once
// Written by k3spec_add_programs.
#include <string_view>

#include <k3spec/core/dtype.hpp>

#include \"${header}\"

namespace K3SPEC_NAMESPACE {
class Cuda;  // backend/cuda/device.hpp, which only units for cards include
}

namespace k3spec::examples {

template <class... Configs>
struct Types {};

using TargetConfig = ::${target};
using Drafts = Types<${types}>;
using dtype_float = float;
using dtype_bfloat16 = bfloat16;
using Dtypes = Types<${dtypes}>;
inline constexpr bool compiled_for_cuda = ${compiled_for_cuda};
inline constexpr std::string_view target_name = \"${target}\";
inline constexpr std::string_view draft_names[] = {${names}};

}  // namespace k3spec::examples
")
endfunction()

# k3spec_check_cuda(<name>): whether units for cards can be compiled. Of k3spec_add_programs.
function(k3spec_check_cuda name)
  set(who "k3spec_add_programs(${name}): CUDA")
  if(NOT TARGET k3spec::cuda)
    message(FATAL_ERROR "${who}: found no CUDA toolkit with cuBLAS, wanted 12.0 or newer (see CUDAToolkit_ROOT)")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "${who}: found the language CUDA not enabled, wanted project(... LANGUAGES CXX CUDA) or "
                        "enable_language(CUDA)")
  endif()
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS 80)
      message(FATAL_ERROR "${who}: CMAKE_CUDA_ARCHITECTURES: found ${architecture}, wanted 80 or newer, or native: the "
                          "card that is here")
    endif()
  endforeach()
endfunction()

function(k3spec_add_programs name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "BARE;CUDA" "HEADER;TARGET" "DRAFTS;DTYPES;LIBRARIES")
  foreach(wanted HEADER TARGET DRAFTS)
    if(NOT arg_${wanted})
      message(FATAL_ERROR "k3spec_add_programs(${name}): found no ${wanted}, wanted HEADER <header> TARGET <type> "
                          "DRAFTS <type>...")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "k3spec_add_programs(${name}): found ${arg_UNPARSED_ARGUMENTS}, wanted HEADER, TARGET, DRAFTS, "
                        "DTYPES, CUDA, LIBRARIES or BARE")
  endif()
  set(dtypes ${arg_DTYPES})
  if(NOT dtypes)
    set(dtypes float)
  endif()
  foreach(dtype IN LISTS dtypes)
    if(NOT dtype MATCHES "^(float|bfloat16)$")
      message(FATAL_ERROR "k3spec_add_programs(${name}): DTYPES: found ${dtype}, wanted float or bfloat16")
    endif()
  endforeach()
  if(arg_CUDA)
    k3spec_check_cuda(${name})
  endif()
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    message(FATAL_ERROR "k3spec_add_programs(${name}): missing libraries, with their Debian packages: "
                        "CLI11 (libcli11-dev)")
  endif()
  get_filename_component(header ${arg_HEADER} ABSOLUTE)
  if(NOT EXISTS ${header})
    message(FATAL_ERROR "k3spec_add_programs(${name}): HEADER: found no file ${header}, wanted one that defines "
                        "${arg_TARGET}")
  endif()
  string(REPLACE "," ";" types "${arg_TARGET};${arg_DRAFTS}")
  k3spec_include_folders(includes ${arg_LIBRARIES})
  k3spec_check_types(${name} ${header} "${includes}" ${types})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_programs)
  k3spec_programs_folder(sources)
  list(JOIN dtypes "," joined)
  k3spec_write_programs(${folder} ${header} ${arg_TARGET} ${joined} ${arg_CUDA} ${arg_DRAFTS})
  set(units "")
  list(LENGTH arg_DRAFTS count)
  math(EXPR last "${count} - 1")
  foreach(number RANGE ${last})
    list(APPEND units ${number})
  endforeach()
  set(own_capture ${sources}/capture.cpp)
  set(own_convert_draft ${sources}/convert_draft.cpp)
  set(own_inspect ${sources}/inspect.cpp)
  set(own_random_target ${sources}/random_target.cpp)
  set(own_train_draft ${sources}/train_draft/main.cpp)
  set(own_speculate ${sources}/speculate/main.cpp ${sources}/speculate/target.cpp)
  foreach(number IN LISTS units)
    list(APPEND own_speculate ${folder}/speculate_${number}.cpp)
    foreach(dtype IN LISTS dtypes)
      list(APPEND own_train_draft ${folder}/train_draft_${number}_${dtype}.cpp)
      if(arg_CUDA)
        list(APPEND own_train_draft ${folder}/train_draft_${number}_${dtype}_cuda.cu)
      endif()
    endforeach()
  endforeach()
  # What these do takes no time; their JSON takes long to optimise. They must not instantiate what the other units of
  # their program calculate with (test program_units): the linker might take that of these.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  if("${CMAKE_CXX_FLAGS_${type}}" MATCHES "-O[23]")
    set_source_files_properties(${own_convert_draft} ${own_inspect} ${own_random_target} ${sources}/speculate/main.cpp
                                ${sources}/train_draft/main.cpp PROPERTIES COMPILE_OPTIONS -O1)
  endif()
  add_custom_target(${name})
  foreach(program train_draft speculate capture inspect convert_draft random_target)
    set(target ${name}_${program})
    if(arg_BARE)
      set(target ${program})
    endif()
    add_executable(${target} ${own_${program}})
    target_include_directories(${target} PRIVATE ${folder})
    target_link_libraries(${target} PRIVATE k3spec::k3spec CLI11::CLI11 ${arg_LIBRARIES})
    if(arg_CUDA AND program STREQUAL train_draft)
      target_link_libraries(${target} PRIVATE k3spec::cuda)
      # 186: a loop over the inputs of a layer that has none compares with 0.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-diag-suppress=186>)
    endif()
    if(NOT arg_BARE)
      set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program}
                            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name})
    endif()
    add_dependencies(${name} ${target})
  endforeach()
endfunction()
