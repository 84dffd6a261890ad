// SPDX-License-Identifier: Apache-2.0
#include "sessions/deployment.h"

#include <optional>
#include <sstream>
#include <vector>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/sha256.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

constexpr const char* kPluginName = "libpiper_cuda.so";

struct Part {
    std::filesystem::path local;
    std::string remote, hash;
};

/// What the host says of a worker: hashes of the files that are there, and how it starts.
struct Answer {
    std::vector<std::string> hashes;  ///< of each part; "" when it is not there
    std::optional<int> start;
    bool may_not_be_run = false;  ///< it is there
    std::string missing, said;
};

/// Prints the hash of each file, then goes on only when each is the one wanted: nothing else may
/// be started.
std::string hashQuestion(const std::vector<Part>& parts) {
    std::string script =
        "h() { if command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r < \"$1\"; else "
        "sha256sum < \"$1\"; fi | cut -d' ' -f1; }\nsame=1\n";
    for (const Part& part : parts)
        script += fmt::format(
            "f={}; g=; [ ! -f \"$f\" ] || g=$(h \"$f\"); echo \"H $g\"\n"
            "if [ \"$g\" != {} ]; then same=0\n"
            "elif [ ! -x \"$f\" ]; then chmod 700 \"$f\"; fi\n",
            shellQuote(part.remote), part.hash);
    return script + "[ $same -eq 1 ] || exit 0\n";
}

std::string startQuestion(const std::string& worker) {
    return fmt::format(
        "w={}\n[ -f \"$w\" ] || exit 0\n[ -x \"$w\" ] || {{ echo D; exit 0; }}\n"
        "t=$(\"$w\" --help 2>&1 >/dev/null); s=$?\necho R $s\n"
        "[ $s -eq 0 ] || {{ printf 'T %s\\n' \"$t\"\n"
        "ldd \"$w\" 2>&1 | awk '/not found/ {{ print \"M\", $1 }}'; }}\n"
        "exit 0\n",
        shellQuote(worker));
}

Result<Answer> ask(Connection& connection, const std::vector<Part>& parts,
                   const std::string& worker) {
    PIPER_ASSIGN(const CommandResult r,
                 runShell(connection, (parts.empty() ? std::string() : hashQuestion(parts)) +
                                          startQuestion(worker)));
    Answer answer;
    std::istringstream in(r.output);
    std::string line;
    while (std::getline(in, line)) {
        const std::string value = line.size() > 2 ? line.substr(2) : "";
        if (line.starts_with("H")) answer.hashes.push_back(displayLine(value, 80));
        if (line == "D") answer.may_not_be_run = true;
        if (line.starts_with("R ")) answer.start = std::atoi(value.c_str());
        if (line.starts_with("T ")) answer.said = displayLine(value, 200);
        if (line.starts_with("M ")) answer.missing += " " + displayLine(value, 100);
    }
    if (answer.hashes.size() >= parts.size()) return answer;
    return fail(ErrorCode::External, "{} does not say whether the worker is there: {}",
                connection.label(), displayLine(r.error_output + r.output));
}

/// What was sent, and found whole under its temporary name, must be what is there now.
Status mustBeWhatWasSent(Connection& connection, const std::vector<Part>& parts,
                         const Answer& answer) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (answer.hashes[i] == parts[i].hash) continue;
        (void)connection.run({"rm", "-f", "--", parts[i].remote});
        Error error = fail(ErrorCode::External,
                           "what {} has is not what was sent to it, and was not started: SHA-256 "
                           "{} here, {} there",
                           connection.label(), parts[i].hash,
                           answer.hashes[i].empty() ? "none" : answer.hashes[i]);
        error.where = parts[i].remote;
        error.hint =
            "its file system changes files, or its openssl or sha256sum does not tell the truth: "
            "ask its administrator, try another directory (session add --directory DIR), or name a "
            "worker that you put there yourself (session add --worker PATH)";
        return error;
    }
    return {};
}

Status mustRun(Connection& connection, const Answer& answer, const std::string& worker) {
    if (answer.start == 0) return {};
    Error error;
    if (answer.may_not_be_run) {
        error = fail(ErrorCode::External, "the worker may not be run on {}", connection.label());
        error.where = worker;
        error.hint =
            "its file system may be mounted noexec: use another directory (session add "
            "--directory DIR), or chmod u+x the worker where it is your own";
        return error;
    }
    if (!answer.start) {
        error = fail(ErrorCode::NotFound, "no worker on {}", connection.label());
        error.where = worker;
        error.hint =
            "put one there (docs/sessions.md), or add the session without --worker: ours is sent";
        return error;
    }
    if (!answer.missing.empty())
        error = fail(ErrorCode::External, "the worker does not run on {}: it lacks{}",
                     connection.label(), answer.missing);
    else
        error = fail(ErrorCode::External, "the worker does not run on {} (status {}): {}",
                     connection.label(), *answer.start, answer.said);
    error.where = worker;
    error.hint =
        "have the libraries installed there, or build the source there (docs/sessions.md) and name "
        "the result: session add --worker PATH";
    return error;
}

}  // namespace

Result<Deployment> deployWorker(Connection& connection, const std::string& directory,
                                const std::filesystem::path& worker,
                                const TransferProgress& progress, const std::stop_token& stop) {
    if (connection.isLocal()) return Deployment{worker.string(), false};
    std::vector<Part> parts = {{worker, "piper-worker", {}}};
    std::error_code ignored;
    for (const auto& place : {worker.parent_path().parent_path() / "lib" / kPluginName,
                              worker.parent_path() / kPluginName})
        if (std::filesystem::exists(place, ignored)) {
            parts.push_back({place, kPluginName, {}});
            break;
        }
    for (Part& part : parts) {
        PIPER_ASSIGN(part.hash, sha256OfFile(part.local));
    }
    const std::string home = directory + "/worker/" + parts.front().hash.substr(0, 16);
    for (Part& part : parts) part.remote = home + "/" + part.remote;
    Deployment out{parts.front().remote, false};
    PIPER_ASSIGN(Answer answer, ask(connection, parts, out.worker));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (answer.hashes[i] == parts[i].hash) continue;
        if (!out.sent) PIPER_TRY(connection.makeDirectory(home));
        PIPER_TRY(connection.send(parts[i].local, parts[i].remote, true, progress, stop));
        out.sent = true;
    }
    if (out.sent) {
        PIPER_ASSIGN(answer, ask(connection, parts, out.worker));
        PIPER_TRY(mustBeWhatWasSent(connection, parts, answer));
    }
    PIPER_TRY(mustRun(connection, answer, out.worker));
    return out;
}

Status checkWorker(Connection& connection, const std::string& worker) {
    PIPER_ASSIGN(const Answer answer, ask(connection, {}, worker));
    return mustRun(connection, answer, worker);
}

Status removeWorkers(Connection& connection, const std::string& directory) {
    PIPER_ASSIGN(const CommandResult r, connection.run({"rm", "-rf", "--", directory + "/worker"}));
    if (r.exit_status == 0) return {};
    return fail(ErrorCode::Io, "cannot remove {}/worker on {}: {}", directory, connection.label(),
                displayLine(r.error_output));
}

}  // namespace piper
