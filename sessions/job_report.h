// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/job_status.h"
#include "sessions/connection.h"

namespace piper {

/// What a script on the host says of a job (watchScript).
struct JobReport {
    std::string name;    ///< of its directory; in lists only
    std::string status;  ///< status.json, "" when there is none yet
    std::string exit_status, queue, place, expected_start;
    std::string ending;     ///< the log, or those lines of it that say what ended it from outside
    std::string slurm_end;  ///< the file of that name
    bool alive = true, cancelled = false;
};

/// Puts the lines of a script together to reports.
class JobReportReader {
public:
    /// Complete reports that `text` brings.
    std::vector<JobReport> feed(std::string_view text);

private:
    void take(std::string_view line, std::vector<JobReport>& out);
    std::string m_line;
    JobReport m_next;
    bool m_fresh = false;
};

/// The state a report means. Why a job failed stands in its message only when the job itself said
/// so. Errors: InvalidInput when status.json is none; `where` names it.
[[nodiscard]] Result<JobStatus> statusOf(const JobReport& report, std::string_view where);

struct JobSummary {
    std::string directory;
    JobStatus status;
};

/// Every job under a root, newest first, in one exchange with the host.
[[nodiscard]] Result<std::vector<JobSummary>> summarizeJobs(Connection& connection,
                                                            const std::string& jobs_root);

}  // namespace piper
