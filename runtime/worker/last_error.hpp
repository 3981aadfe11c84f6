// How failures travel inside the library: an RTW_ code is returned, the text lies in this thread's last error.
#pragma once

#include <string>

namespace rtrain::worker {

// Keeps "what, where and what to do next" for rtw_last_error() and gives `code` back.
int failed(int code, std::string message);
const char* last_error();
std::string errno_text(int error);  // "No space left on device (errno 28)"

}  // namespace rtrain::worker
