# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where.
if(NOT TARGET pawl)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pawl)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pawl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
# Two export sets: a program that links the shared library needs none of our dependencies.
install(TARGETS pawl EXPORT pawl_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pawl_static EXPORT pawl_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT pawl_shared NAMESPACE pawl:: FILE pawlTargets.cmake DESTINATION ${package_dir})
install(EXPORT pawl_archive NAMESPACE pawl:: FILE pawlStaticTargets.cmake DESTINATION ${package_dir})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/pawlConfig.cmake.in ${PROJECT_BINARY_DIR}/pawlConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pawlConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pawlConfig.cmake ${PROJECT_BINARY_DIR}/pawlConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/pawlDependencies.cmake DESTINATION ${package_dir})

# The paths in pawl.pc follow the file, so that the tree may be moved.
file(RELATIVE_PATH pawl_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pawl_pc_uring)
if(PAWL_URING)
  set(pawl_pc_uring "-luring ")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/pawl.pc.in ${PROJECT_BINARY_DIR}/pawl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pawl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The Python wheel has the shared library and the command inside its package.
if(SKBUILD)
  set_target_properties(pawl PROPERTIES VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # one file
  install(TARGETS pawl LIBRARY DESTINATION lib COMPONENT wheel NAMELINK_SKIP)
  install(TARGETS pawl_command RUNTIME DESTINATION bin COMPONENT wheel)
endif()
