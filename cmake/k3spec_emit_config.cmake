# k3spec_emit_config(<header> MODEL <folder> NAME <type>)
#
# Writes a header with the config type of the checkpoint in a folder, and of a target types of drafts to begin with, when
# the header is not there yet: from then on it is yours. It does what `inspect FOLDER --emit-config` does, with an inspect
# that is compiled when configuring. Relative paths are those of the current source folder.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/k3spec_add_programs.cmake)

function(k3spec_emit_config header)
  set(who "k3spec_emit_config(${header})")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODEL;NAME" "")
  foreach(wanted MODEL NAME)
    if(NOT arg_${wanted})
      message(FATAL_ERROR "${who}: found no ${wanted}, wanted MODEL <folder> NAME <type>")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${who}: found ${arg_UNPARSED_ARGUMENTS}, wanted MODEL or NAME")
  endif()
  get_filename_component(header ${header} ABSOLUTE)
  get_filename_component(model ${arg_MODEL} ABSOLUTE)
  if(EXISTS ${header})
    return()
  endif()
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    message(FATAL_ERROR "${who}: missing libraries, with their Debian packages: CLI11 (libcli11-dev)")
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/k3spec_emit_config)
  k3spec_programs_folder(sources)
  set(configs k3spec::configs)
  k3spec_write_programs(${folder} k3spec/config/block_drafts.hpp ${configs}::KimiK3Tiny float OFF
                        ${configs}::KimiK3TinyDFlash)
  k3spec_include_folders(includes)
  try_compile(compiles ${folder}/inspect SOURCES ${sources}/inspect.cpp
              CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${folder};${includes}" LINK_LIBRARIES fmt::fmt ${CMAKE_DL_LIBS}
              OUTPUT_VARIABLE said CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON COPY_FILE ${folder}/inspect_model)
  if(NOT compiles)
    string(REGEX MATCH "[^\n]*error: [^\n]*" first "${said}")
    message(FATAL_ERROR "${who}: inspect does not compile: ${first}")
  endif()
  execute_process(COMMAND ${folder}/inspect_model ${model} --emit-config ${header} --name ${arg_NAME}
                  RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE notes)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${who}: ${notes}")
  endif()
  message(STATUS "${notes}${said}")
endfunction()
