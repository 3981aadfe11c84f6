// Names that PyTorch's CUDA headers mention, for machines without these CUDA libraries: the file that includes them is
// compiled there to keep it right, and never linked.
#pragma once

typedef int cusolverStatus_t;

typedef struct cusolverDnContext* cusolverDnHandle_t;
