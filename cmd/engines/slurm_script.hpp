// Makes the batch script of `rtrain slurm submit`. PURE: text from values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::cmd {

struct SlurmWish {
    std::string run, spec_file, storage_path;  // `run`: name of the run; `spec_file`: absolute path of its spec
    std::string program = "rtrain";            // path of rtrain on the nodes
    std::vector<std::string> sets;             // values of the submission's --set options
    std::uint32_t nodes = 1;
    std::int64_t time_minutes = 0;     // time limit of the allocation; 0: the partition's default
    std::string output;                // path of the allocation's output; empty: Slurm's default
    std::string interface;             // network interface of the head's node; empty: the one that Slurm uses
    std::vector<std::string> options;  // options for sbatch: --partition=gpu
};
// Refuses invalid options, and storage that is lost with the allocation.
Result<std::string> slurm_script(const SlurmWish& wish);

}  // namespace rtrain::cmd
