# k3spec::rapidjson: RapidJSON's headers. Its packages name them in one of two ways, with or without a target; a folder
# that the compiler looks in anyway is not named again.
include_guard()

function(k3spec_add_rapidjson)
  if(TARGET k3spec::rapidjson)
    return()
  endif()
  find_path(K3SPEC_RAPIDJSON_INCLUDE rapidjson/reader.h HINTS ${RapidJSON_INCLUDE_DIRS} ${RAPIDJSON_INCLUDE_DIRS} REQUIRED)
  mark_as_advanced(K3SPEC_RAPIDJSON_INCLUDE)
  add_library(k3spec::rapidjson INTERFACE IMPORTED GLOBAL)
  target_include_directories(k3spec::rapidjson INTERFACE ${K3SPEC_RAPIDJSON_INCLUDE})
endfunction()
