// The way of failures inside of the library: functions return an RTW_ code, and the text is stored as this thread's
// last error.
#pragma once

#include <string>

namespace rtrain::worker {

// Stores the text ("what, where and what to do next") for rtw_last_error() and returns `code`.
int failed(int code, std::string message);
const char* last_error();
std::string errno_text(int error);  // "No space left on device (errno 28)"

}  // namespace rtrain::worker
