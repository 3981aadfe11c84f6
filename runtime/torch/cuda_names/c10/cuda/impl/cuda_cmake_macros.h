// Left out of the CPU wheel; a CUDA wheel has its own, which is found first.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
