// The batch script of `rtrain slurm submit`: PURE, text from values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::cmd {

struct SlurmWish {
    std::string run, spec_file, storage_path;  // the run's name; absolute path of its spec
    std::string program = "rtrain";            // rtrain on the nodes
    std::vector<std::string> sets;             // --set of the submission
    std::uint32_t nodes = 1;
    std::int64_t time_minutes = 0;     // 0: the partition's
    std::string output;                // empty: Slurm's default
    std::string interface;             // network card of the head's node; empty: where Slurm reaches that node
    std::vector<std::string> options;  // of sbatch: --partition=gpu
};
// Refused: options that are none, and storage that ends with the allocation.
Result<std::string> slurm_script(const SlurmWish& wish);

}  // namespace rtrain::cmd
