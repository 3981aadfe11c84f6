// Bounds the texts about the ends of a job's processes. A run may fail a hundred thousand times, and each of its ranks
// may leave 256 KiB.
#pragma once

#include <cstddef>
#include <string>

#include "scheduler/model/records.hpp"

namespace rtrain {

// Returns the text, cut to `most` bytes: a longer one keeps its first and its last part, and between them a note says
// how many bytes were left out. No character of UTF-8 is cut in two.
std::string cut_text(std::string text, std::size_t most);

// Returns the reason with each text of a job, an agent or a person cut to `most` bytes.
Reason cut_to(const Reason& reason, std::size_t most);

// Returns how many bytes of its cause a rank keeps that ends now.
std::size_t cause_bytes_of(const Run& run, const Attempt& attempt, Time now);

namespace core {

// Cuts the causes of an attempt that is over: `most` bytes for the rank that failed first, `others` for all other ranks
// together. Returns true if something was cut.
bool cut_causes(Attempt& attempt, std::size_t most, std::size_t others);

}  // namespace core
}  // namespace rtrain
