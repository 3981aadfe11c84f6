# cmake -DFOLDER=<scheduler> -DOUT=<file> -P decider.cmake
# Writes a header with the hash of all that decides: events replayed by another decider need not give the records that
# they gave, also where its version is the same.
file(GLOB_RECURSE sources ${FOLDER}/*.cpp ${FOLDER}/*.hpp)
list(SORT sources)
set(all "")
foreach(source ${sources})
  file(SHA256 ${source} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${OUT} "#pragma once\n#define RTRAIN_DECIDER \"${hash}\"\n")
