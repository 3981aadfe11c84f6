// Missing in the CPU wheel. A CUDA wheel has its own file, which is found first.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
