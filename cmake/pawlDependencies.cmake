# SPDX-License-Identifier: Apache-2.0
# What libpawl stands on, as imported targets. The build includes this file, and the installed
# package does too, for programs that link the static library. `pawl_uses_uring` says whether
# liburing is one of them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
find_path(PAWL_ISAL_INCLUDE_DIR isa-l/crc.h)
find_library(PAWL_ISAL_LIBRARY isal)
find_path(PAWL_ZSTD_INCLUDE_DIR zstd.h)
find_library(PAWL_ZSTD_LIBRARY zstd)
mark_as_advanced(PAWL_ISAL_INCLUDE_DIR PAWL_ISAL_LIBRARY PAWL_ZSTD_INCLUDE_DIR PAWL_ZSTD_LIBRARY)
set(pawl_dependencies ISAL ZSTD)
if(pawl_uses_uring)
  find_path(PAWL_URING_INCLUDE_DIR liburing.h)
  find_library(PAWL_URING_LIBRARY uring)
  mark_as_advanced(PAWL_URING_INCLUDE_DIR PAWL_URING_LIBRARY)
  list(APPEND pawl_dependencies URING)
endif()

set(pawl_dependencies_missing)
foreach(name IN LISTS pawl_dependencies)
  if(NOT PAWL_${name}_INCLUDE_DIR OR NOT PAWL_${name}_LIBRARY)
    list(APPEND pawl_dependencies_missing ${name})
    continue()
  endif()
  string(TOLOWER ${name} target)
  if(NOT TARGET pawl::${target})
    add_library(pawl::${target} UNKNOWN IMPORTED)
    set_target_properties(
      pawl::${target} PROPERTIES IMPORTED_LOCATION "${PAWL_${name}_LIBRARY}"
                                 INTERFACE_INCLUDE_DIRECTORIES "${PAWL_${name}_INCLUDE_DIR}")
  endif()
endforeach()
if(NOT TARGET Threads::Threads)
  list(APPEND pawl_dependencies_missing Threads)
endif()
