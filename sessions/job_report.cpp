// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_report.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/slurm.h"

namespace piper {
namespace {

constexpr std::size_t kLongestLine = 4U << 20;
constexpr std::size_t kLongestEnding = 1U << 20;  ///< bytes of a log that say what ended a job
constexpr std::size_t kMostJobs = 100000;         ///< of one root

/// What a user must know of a job that waits.
std::string queueMessage(const JobReport& report) {
    std::string message = report.queue;
    if (!report.place.empty()) message += ", place " + report.place;
    if (!report.expected_start.empty() && report.expected_start != "N/A")
        message += ", expected to start at " + report.expected_start;
    // Reasons that waiting does not change.
    for (const char* reason : {"PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig",
                               "BadConstraints", "ccount", "InvalidQOS", "QOSNotAllowed"})
        if (report.queue.find(reason) != std::string::npos)
            return message + "; as it is it will not start: cancel it, change the session";
    return message;
}

/// Something outside ended the job, if `ending` says so: that before the ranks' own words.
JobStatus endedBy(const std::optional<std::string>& ending, JobStatus status) {
    if (!ending) return status;
    status.state = JobState::Failed;
    status.message = displayLine(*ending) + (status.message.empty() ? "" : "; " + status.message);
    return status;
}

}  // namespace

std::vector<JobReport> JobReportReader::feed(std::string_view text) {
    std::vector<JobReport> out;
    m_line += text;
    for (std::size_t end; (end = m_line.find('\n')) != std::string::npos;) {
        take(std::string_view(m_line).substr(0, end), out);
        m_line.erase(0, end + 1);
    }
    if (m_line.size() > kLongestLine) m_line.clear();  // no line of ours
    return out;
}

void JobReportReader::take(std::string_view line, std::vector<JobReport>& out) {
    if (line == ".") {
        if (m_fresh) out.push_back(std::move(m_next));
        m_next = {};
        m_fresh = false;
        return;
    }
    if (line.size() < 2) return;
    std::string value(line.substr(2));
    m_fresh = true;
    switch (line.front()) {
        case 'N':
            m_next.name = std::move(value);
            break;
        case 'S':
            if (value.find_first_not_of(' ') != std::string::npos) m_next.status = std::move(value);
            break;
        case 'E':
            m_next.exit_status = std::move(value);
            break;
        case 'A':
            m_next.alive = value == "1";
            break;
        case 'C':
            m_next.cancelled = value == "1";
            break;
        case 'Q':
            m_next.queue = displayLine(value, 100);
            break;
        case 'P':
            m_next.place = displayLine(value, 120);
            break;
        case 'L':
            if (m_next.ending.size() < kLongestEnding) m_next.ending += value + "\n";
            break;
        case 'Z':
            m_next.slurm_end = std::move(value);
            break;
        case 'B':
            m_next.expected_start = displayLine(value, 40);
            break;
        default:
            break;
    }
}

Result<JobStatus> statusOf(const JobReport& report, std::string_view where) {
    JobStatus status;
    std::optional<std::string> ending = slurmEnding(report.slurm_end);
    if (!ending) ending = launcherEnding(report.ending);
    if (!report.status.empty()) {
        PIPER_ASSIGN(status, parseJobStatus(report.status, where));
        status.message = displayText(status.message);
    }
    if (!report.exit_status.empty()) {
        // Rank 0 reports its own end; the job ends with its launcher.
        const int code = std::atoi(report.exit_status.c_str());
        status.state = code == 0                         ? JobState::Finished
                       : report.cancelled || code == 130 ? JobState::Cancelled
                                                         : JobState::Failed;
        return report.cancelled || code == 0 ? status : endedBy(ending, std::move(status));
    }
    if (!report.alive) {
        const bool cancelled = report.cancelled || report.slurm_end.starts_with("CANCELLED");
        status.state = cancelled ? JobState::Cancelled : JobState::Failed;
        if (cancelled && ending) status.message = displayLine(*ending);
        return cancelled ? status : endedBy(ending, std::move(status));
    }
    if (isFinal(status.state)) status.state = JobState::Running;
    if (report.queue.starts_with("PENDING") && report.status.empty()) {
        status.state = JobState::Queued;
        status.message = queueMessage(report);
    }
    return status;
}

Result<std::vector<JobSummary>> summarizeJobs(Connection& connection,
                                              const std::string& jobs_root) {
    PIPER_ASSIGN(const CommandResult r, runShell(connection, listScript(jobs_root)));
    if (r.exit_status != 0)
        return fail(ErrorCode::External, "{} does not list the jobs in {}: {}", connection.label(),
                    jobs_root, displayLine(r.error_output));
    std::vector<JobSummary> jobs;
    const std::vector<JobReport> reports = JobReportReader().feed(r.output);
    if (reports.size() > kMostJobs)
        return fail(ErrorCode::External, "{} lists {} jobs in {}; {} are read at most",
                    connection.label(), reports.size(), jobs_root, kMostJobs);
    for (const JobReport& report : reports) {
        if (!isPlainFileName(report.name))
            return fail(ErrorCode::External,
                        "{} lists a job named '{}', which is no name of a directory; nothing of "
                        "this list is used",
                        connection.label(), displayLine(report.name, 120));
        const std::string directory = jobs_root + "/" + displayLine(report.name, 256);
        Result<JobStatus> status = statusOf(report, directory);
        JobSummary summary{directory, {}};
        if (status.ok()) {
            summary.status = std::move(status).value();
        } else {
            summary.status.state = JobState::Failed;
            summary.status.message = status.error().text();
        }
        jobs.push_back(std::move(summary));
    }
    std::sort(jobs.begin(), jobs.end(),
              [](const JobSummary& a, const JobSummary& b) { return a.directory > b.directory; });
    return jobs;
}

}  // namespace piper
