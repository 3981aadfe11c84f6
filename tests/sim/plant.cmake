# cmake -DPLANT=<plants/NN-name.cmake> -DROOT=<source tree> -DOUT=<file> -P plant.cmake
# Writes the source file with the bug planted in it. A plant whose text is not found exactly once is an error, so that a
# plant cannot rot unseen.
include(${PLANT})
file(READ ${ROOT}/${PLANT_FILE} text)
string(FIND "${text}" "${PLANT_FROM}" first)
string(FIND "${text}" "${PLANT_FROM}" last REVERSE)
if(first EQUAL -1 OR NOT first EQUAL last)
  message(FATAL_ERROR "${PLANT}: its text is not found exactly once in ${PLANT_FILE}: renew the plant")
endif()
string(REPLACE "${PLANT_FROM}" "${PLANT_TO}" text "${text}")
file(WRITE ${OUT} "${text}")
