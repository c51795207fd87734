# k3spec_march_options(<out> <march>): the compile options that ask for an instruction set. The package file uses it too,
# so that a consumer of an installed k3spec may still set K3SPEC_MARCH.
function(k3spec_march_options out march)
  set(options "")
  if(march AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i[3-6]86)$")
    set(options $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-march=${march}>
                $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-march=${march}>)
  endif()
  set(${out} "${options}" PARENT_SCOPE)
endfunction()
