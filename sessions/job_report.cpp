// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_report.h"

#include <algorithm>
#include <cstdlib>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"

namespace piper {
namespace {

constexpr std::size_t kLongestLine = 4U << 20;

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
            m_next.place = displayLine(value, 20);
            break;
        default:
            break;
    }
}

Result<JobStatus> statusOf(const JobReport& report, std::string_view where) {
    JobStatus status;
    if (!report.status.empty()) {
        PIPER_ASSIGN(status, parseJobStatus(report.status, where));
        status.message = displayText(status.message);
    }
    if (!report.exit_status.empty()) {
        // Rank 0 reports its own end; the job ends with its launcher.
        const int code = std::atoi(report.exit_status.c_str());
        status.state = report.cancelled || code == 130 ? JobState::Cancelled
                       : code == 0                     ? JobState::Finished
                                                       : JobState::Failed;
        return status;
    }
    if (!report.alive) {
        status.state = report.cancelled ? JobState::Cancelled : JobState::Failed;
        return status;
    }
    if (isFinal(status.state)) status.state = JobState::Running;
    if (report.queue.starts_with("PENDING")) {
        status.state = JobState::Queued;
        status.message = report.queue;
        if (!report.place.empty()) status.message += ", place " + report.place;
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
    for (const JobReport& report : JobReportReader().feed(r.output)) {
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
