// Names that ProcessGroupGloo.hpp mentions; gloo itself lies inside libtorch_cpu.so, its headers are not in the wheel.
// No gloo object is made or laid out by code that sees these.
#pragma once
