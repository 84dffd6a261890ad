// SPDX-License-Identifier: Apache-2.0
#include "sessions/job.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/base/json.h"
#include "sessions/display_text.h"
#include "sessions/job_directory.h"
#include "sessions/job_report.h"
#include "sessions/launchers.h"
#include "sessions/shell_quote.h"
#include "sessions/slurm.h"

namespace piper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLogPiece = 1 << 20;

class ScriptJob final : public Job {
public:
    ScriptJob(Connection& connection, std::string directory, JobRecord record)
        : m_connection(connection),
          m_directory(std::move(directory)),
          m_record(std::move(record)) {}

    ~ScriptJob() override {
        if (m_watch != nullptr) (void)m_watch->cancel(0);
    }

    const std::string& directory() const override { return m_directory; }

    Result<JobStatus> status() override {
        PIPER_ASSIGN(const JobReport report, this->report());
        PIPER_ASSIGN(const JobStatus status, statusOf(report, file(kStatusFile)));
        if (!isFinal(status.state) || status.state == JobState::Finished || report.cancelled)
            return status;
        if (!m_final) {
            PIPER_ASSIGN(m_final, explained(report));
        }
        return *m_final;
    }

    Status cancel() override {
        PIPER_ASSIGN(const CommandResult r,
                     runShell(m_connection, cancelScript(m_directory, m_record)));
        if (r.exit_status == 0) return {};
        if (r.exit_status != 9)
            return fail(ErrorCode::External, "cannot end job {}: {}", m_directory,
                        displayLine(r.error_output));
        return fail(ErrorCode::External, "processes of job {} are still there after SIGKILL: {}",
                    m_directory, displayLine(r.error_output));
    }

    Result<std::string> log() override {
        PIPER_ASSIGN(std::string text,
                     m_connection.readFile(file(kLogFile), kLogPiece, m_log_read));
        m_log_read += static_cast<std::int64_t>(text.size());
        return displayText(text);
    }

private:
    [[nodiscard]] std::string file(std::string_view name) const {
        return m_directory + "/" + std::string(name);
    }

    /// A job that did not end as it should: why, in the words of who ended it.
    Result<JobStatus> explained(JobReport report) {
        PIPER_ASSIGN(const CommandResult log,
                     m_connection.run({"tail", "-c", "1000000", file(kLogFile)}));
        report.ending = log.output;
        if (report.exit_status.empty() && !m_record.slurm_job.empty()) {
            const Result<std::string> end = m_connection.readFile(file(kSlurmEndFile), 4096);
            if (end.ok()) report.slurm_end = *end;
        }
        PIPER_ASSIGN(JobStatus status, statusOf(report, file(kStatusFile)));
        if (status.state != JobState::Failed || launcherEnding(report.ending) ||
            slurmEnding(report.slurm_end))
            return status;
        const std::string reason =
            log.exit_status == 0 ? displayLine(failureReason(log.output)) : "no log";
        if (report.exit_status.empty())
            status.message = "the launcher ended without leaving an exit status; " + reason;
        else if (status.message.empty())
            status.message = fmt::format("{} ended with status {}; {}", m_record.launcher,
                                         std::atoi(report.exit_status.c_str()), reason);
        return status;
    }

    /// The newest report. A local job is asked at once; one behind a network, or in Slurm's queue,
    /// has a script that reports changes over a channel of its own.
    Result<JobReport> report() {
        if (m_connection.isLocal() && m_record.slurm_job.empty()) return localReport();
        for (int attempt = 0;; ++attempt) {
            Status fresh = readWatch();
            if (fresh.ok()) return m_newest;
            m_watch.reset();  // the connection was lost: opened again on the next start
            if (attempt == 3) return fresh.error();
        }
    }

    Status readWatch() {
        if (m_watch == nullptr) {
            m_reader = {};
            m_any = false;
            PIPER_ASSIGN(m_watch,
                         m_connection.start({"sh", "-c", watchScript(m_directory, m_record)}, ""));
        }
        const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
        for (;;) {
            PIPER_ASSIGN(const std::string text, m_watch->read());
            for (JobReport& report : m_reader.feed(text)) {
                m_newest = std::move(report);
                m_any = true;
            }
            if (m_any) return {};
            PIPER_ASSIGN(const std::optional<int> end, m_watch->poll());
            if (end && text.empty())
                return fail(ErrorCode::External, "{} does not say how job {} is (status {})",
                            m_connection.label(), m_directory, *end);
            if (Clock::now() > deadline)
                return fail(ErrorCode::External, "{} does not say how job {} is within 20 s",
                            m_connection.label(), m_directory);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    Result<JobReport> localReport() {
        JobReport report;
        const auto text = [&](std::string_view name, std::int64_t limit) {
            Result<std::string> content = m_connection.readFile(file(name), limit);
            return content.ok() ? std::move(content).value() : std::string();
        };
        report.exit_status = text(kExitStatusFile, 64);
        report.status = text(kStatusFile, 1 << 20);
        report.cancelled = m_connection.readFile(file(kCancelledFile), 1).ok();
        if (!report.exit_status.empty()) return report;
        const std::string pid = text(kLauncherPidFile, 32);
        if (pid.empty()) {
            report.alive = ++m_checks_without_pid < 40;  // the script has not started yet
        } else {
            // One that has ended and waits for its parent does not live.
            const auto of_process =
                m_connection.readFile("/proc/" + pid.substr(0, pid.find('\n')) + "/status", 4096);
            report.alive = of_process.ok() && of_process->find("State:\tZ") == std::string::npos;
            // It may have ended since we looked.
            if (!report.alive) report.exit_status = text(kExitStatusFile, 64);
        }
        return report;
    }

    Connection& m_connection;
    std::string m_directory;
    JobRecord m_record;
    std::int64_t m_log_read = 0;
    int m_checks_without_pid = 0;
    std::unique_ptr<RunningCommand> m_watch;
    JobReportReader m_reader;
    JobReport m_newest;
    bool m_any = false;
    std::optional<JobStatus> m_final;
};

}  // namespace

std::string jobRecordText(const JobRecord& record) {
    const Json json = {{"format_version", 1},
                       {"launcher", record.launcher},
                       {"hosts", record.hosts},
                       {"slurm_job", record.slurm_job}};
    return json.dump(2) + "\n";
}

Result<JobRecord> readJobRecord(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, 1));
    JobRecord record;
    record.launcher = in.string("launcher");
    record.slurm_job = in.string("slurm_job", "");
    for (const Json& host : in.child("hosts"))
        if (host.is_string()) record.hosts.push_back(host.get<std::string>());
    PIPER_TRY(in.finish());
    // They stand in commands later: nothing but names and numbers.
    for (const std::string& host : record.hosts) PIPER_TRY(checkHostName(host));
    if (record.slurm_job.find_first_not_of("0123456789_") != std::string::npos)
        return fail(ErrorCode::InvalidInput, "'{}' is no Slurm job", displayLine(record.slurm_job))
            .at(std::string(where));
    return record;
}

Result<CommandResult> runShell(Connection& connection, const std::string& script) {
    return connection.run({"sh", "-c", script});
}

std::unique_ptr<Job> makeJob(Connection& connection, std::string directory, JobRecord record) {
    return std::make_unique<ScriptJob>(connection, std::move(directory), std::move(record));
}

namespace {

/// A job whose submission got no answer: Slurm may have it all the same.
Status adopt(Connection& connection, const std::string& directory, JobRecord& record) {
    PIPER_ASSIGN(const CommandResult r,
                 runShell(connection, fmt::format("{}cd {} || exit 4\nadopt && echo \"$j\"\n",
                                                  slurmFunctions(), shellQuote(directory))));
    if (r.exit_status != 0)
        return fail(ErrorCode::External,
                    "Slurm on {} does not answer: whether it has job {} is not known",
                    connection.label(), directory);
    const std::string number = r.output.substr(0, r.output.find('\n'));
    if (number.find_first_not_of("0123456789_") == std::string::npos) record.slurm_job = number;
    return {};
}

}  // namespace

Result<std::unique_ptr<Job>> openJob(Connection& connection, const std::string& given) {
    PIPER_ASSIGN(const std::string directory, checkJobDirectory(given));
    const std::string record_file = directory + "/" + std::string(kLauncherRecordFile);
    const Result<std::string> text = connection.readFile(record_file, 1 << 20);
    if (text.ok()) {
        PIPER_ASSIGN(JobRecord record, readJobRecord(*text, record_file));
        if (record.launcher == "sbatch" && record.slurm_job.empty())
            PIPER_TRY(adopt(connection, directory, record));
        return makeJob(connection, directory, std::move(record));
    }
    if (text.error().code != ErrorCode::NotFound) return text.error();
    const Result<std::string> plan =
        connection.readFile(directory + "/" + std::string(kPlanFile), 1);
    if (plan.ok()) return makeJob(connection, directory, {});
    Error error = fail(ErrorCode::NotFound, "no job in this directory: it has no {}", kPlanFile);
    error.where = directory;
    return error;
}

}  // namespace piper
