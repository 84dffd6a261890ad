// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace piper::test {

/// How worker ranks are started.
struct Launch {
    std::filesystem::path job;  ///< job directory; also gets plan.json, output.txt, exit-N
    Plan plan;
    std::vector<std::string> arguments;
    std::string nodes;    ///< PIPER_NODE, empty for none
    std::string prelude;  ///< shell words before the worker: "ulimit -f 100;"
    bool mpi = true;      ///< one rank runs without mpirun when false
};

/// Worker ranks under mpirun (or one alone). Every rank's own exit status goes to a file.
class WorkerProcess {
public:
    explicit WorkerProcess(const Launch& launch);
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess&) = delete;
    WorkerProcess& operator=(const WorkerProcess&) = delete;

    /// Exit status of the launcher.
    int wait();
    [[nodiscard]] pid_t process() const { return m_process; }
    /// Of a rank's worker process: -1 while there is none.
    [[nodiscard]] int rankExit(std::int64_t rank) const;
    [[nodiscard]] std::string output() const;
    /// Waits until status.json says that this many steps are done; false when the workers end first
    /// or a minute passes.
    [[nodiscard]] bool awaitStep(std::int64_t step) const;
    /// Loss of every step, from the output.
    [[nodiscard]] std::vector<double> losses() const;
    [[nodiscard]] std::string statusText() const;

private:
    std::filesystem::path m_job;
    pid_t m_process = -1;
};

/// Runs to the end.
struct WorkerResult {
    int exit_status = -1;
    std::vector<double> losses;
    std::string output, status;
};
[[nodiscard]] WorkerResult runWorkers(const Launch& launch);

/// Two dense and two MoE layers of hidden 32, eight experts; four micro-batches of two sequences.
[[nodiscard]] Plan smallPlan(std::int64_t pp, std::int64_t dp, std::int64_t ep);

}  // namespace piper::test
