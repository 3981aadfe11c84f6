// Effects as one line of text each, for transcripts and traces.
#pragma once

#include <string>

#include "scheduler/controller.hpp"

namespace rtrain::transcripts {

std::string text_of(const Cluster& cluster, const Effect& effect);

}  // namespace rtrain::transcripts
