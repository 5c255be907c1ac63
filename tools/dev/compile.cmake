# How sources become objects: in groups, since the headers are most of the work, or only to be looked at.

# A group is one translation unit, so names in anonymous namespaces have to differ within a library or program.
# Sources with compile options of their own stay alone. Small enough for an edited file to be compiled soon.
set(CMAKE_UNITY_BUILD ${HP_UNITY})
set(HP_UNITY_BATCH 8 CACHE STRING "how many sources are in a group; a clean build takes fewer and larger ones")
set(CMAKE_UNITY_BUILD_BATCH_SIZE ${HP_UNITY_BATCH})

if(HP_SYNTAX_ONLY)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)  # there would be none; and a source shows an include that it lacks
  set(CMAKE_CXX_COMPILE_OBJECT
      "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>" "<CMAKE_COMMAND> -E touch <OBJECT>")
  set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_COMMAND> -E touch <TARGET>")
  set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_COMMAND> -E touch <TARGET>")
  set(CMAKE_CXX_ARCHIVE_FINISH "")
endif()

# CMake 3.25 has no unity builds for CUDA: with HP_UNITY this puts the .cu files of a target, which lie in the calling
# folder, into groups of five.
function(hp_group_cuda_sources target)
  if(NOT HP_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(grouped ${sources})
  list(FILTER grouped INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  set(group 0)
  while(grouped)
    list(SUBLIST grouped 0 5 some)
    list(REMOVE_ITEM grouped ${some})
    list(TRANSFORM some REPLACE ".+" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/\\0\"\n")
    string(CONCAT text ${some})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_${group}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # is written only where it changes
    list(APPEND sources ${file})
    math(EXPR group "${group} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

# Sets `result` to the targets of a folder and those below it whose TYPE matches.
function(hp_targets_below folder type result)
  set(found "")
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(its ${target} TYPE)
    if(its MATCHES "^(${type})$")
      list(APPEND found ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    hp_targets_below(${below} "${type}" more)
    list(APPEND found ${more})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The target hp_libraries: all libraries of the project, those that its tests share among them.
function(hp_add_libraries_target)
  hp_targets_below(${CMAKE_SOURCE_DIR} "STATIC_LIBRARY|OBJECT_LIBRARY" libraries)
  add_custom_target(hp_libraries DEPENDS ${libraries})
endfunction()

# Takes all that the calling folder and those below it build out of the default build, but for these programs and what
# they need. By its name each is still built.
function(hp_build_only)
  hp_targets_below(${CMAKE_CURRENT_SOURCE_DIR} "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY" targets)
  list(REMOVE_ITEM targets ${ARGN})
  set_target_properties(${targets} PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()
