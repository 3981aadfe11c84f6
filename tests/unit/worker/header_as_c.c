/* Compiles as C: programs in any language build on the worker library's header. */
#include "runtime/worker/rtrain_worker.h"
