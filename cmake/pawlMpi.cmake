# SPDX-License-Identifier: Apache-2.0
# MPI, for the example trainer and the tests: the library itself needs none. Open MPI where several
# are installed side by side, as Debian does under names of their own; else whatever mpicc stands for.
# MPI_C_FOUND says whether there is one; -DMPI_C_COMPILER= and -DMPIEXEC_EXECUTABLE= choose another.
find_program(MPI_C_COMPILER NAMES mpicc.openmpi mpicc)
find_program(MPIEXEC_EXECUTABLE NAMES mpirun.openmpi mpirun mpiexec)
mark_as_advanced(MPI_C_COMPILER MPIEXEC_EXECUTABLE)
if(MPI_C_COMPILER AND MPIEXEC_EXECUTABLE)
  find_package(MPI QUIET COMPONENTS C)
endif()
