// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "app/common/sessions.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "sessions/local_connection.h"
#include "sessions/sha256.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// A directory of this machine that goes away with its content.
class Scratch {
public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "piper-fetch-XXXXXX").string();
        if (::mkdtemp(name.data()) != nullptr) m_path = name;
    }
    ~Scratch() {
        std::error_code ignored;
        if (!m_path.empty()) std::filesystem::remove_all(m_path, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

private:
    std::filesystem::path m_path;
};

/// One file fetched by ours and by OpenSSH's own programs, the hash of each result checked.
class FetchRace {
public:
    FetchRace(Session& session, std::string remote, std::string hash)
        : m_session(session), m_remote(std::move(remote)), m_hash(std::move(hash)) {}

    Result<double> ours() {
        return timed([&](const std::filesystem::path& to) {
            return m_session.connection().fetch(m_remote, to, {});
        });
    }
    Result<double> scp() {
        return timed([&](const std::filesystem::path& to) {
            return run({"scp", "-q", "-B"}, {host() + ":" + m_remote, to.string()});
        });
    }
    Result<double> sftp() {
        return timed([&](const std::filesystem::path& to) {
            return run({"sftp", "-q", "-o", "BatchMode=yes"},
                       {host() + ":" + m_remote, to.string()});
        });
    }

private:
    [[nodiscard]] const std::string& host() const { return m_session.config().host; }

    Status run(std::vector<std::string> argv, const std::vector<std::string>& more) {
        if (!m_session.config().ssh_config.empty()) {
            argv.emplace_back("-F");
            argv.push_back(m_session.config().ssh_config);
        }
        argv.insert(argv.end(), more.begin(), more.end());
        PIPER_ASSIGN(const CommandResult r, openLocalConnection()->run(argv));
        if (r.exit_status == 0) return {};
        return fail(ErrorCode::External, "{} ended with status {}: {}", argv[0], r.exit_status,
                    r.error_output);
    }

    template <class Fetch>
    Result<double> timed(const Fetch& fetch) {
        const std::filesystem::path to = m_scratch.path() / "fetched";
        std::error_code ignored;
        std::filesystem::remove(to, ignored);
        const Clock::time_point begin = Clock::now();
        PIPER_TRY(fetch(to));
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        PIPER_ASSIGN(const std::string hash, sha256OfFile(to));
        if (hash != m_hash)
            return fail(ErrorCode::External, "what was fetched is not what was sent");
        return seconds;
    }

    Session& m_session;
    std::string m_remote, m_hash;
    Scratch m_scratch;
};

struct Times {
    std::vector<double> ours, scp, sftp, ratio;
};

Result<Times> race(FetchRace& fetch, std::int64_t pairs) {
    Times t;
    PIPER_TRY(fetch.ours());  // warms the host's page cache
    for (std::int64_t i = 0; i < pairs; ++i) {
        PIPER_ASSIGN(const double ours, fetch.ours());
        PIPER_ASSIGN(const double scp, fetch.scp());
        PIPER_ASSIGN(const double sftp, fetch.sftp());
        t.ours.push_back(ours);
        t.scp.push_back(scp);
        t.sftp.push_back(sftp);
        t.ratio.push_back(std::min(scp, sftp) / ours);
    }
    return t;
}

}  // namespace

Outcome benchFetch(const BenchOptions& options, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session));
    if (session->config().isLocal()) {
        Error error = fail(ErrorCode::InvalidInput, "bench fetch needs a session over SSH");
        error.hint = "piperctl session add NAME --host HOST, then --session NAME";
        return error;
    }
    PIPER_ASSIGN(const std::string directory, session->directory());
    PIPER_TRY(session->connection().makeDirectory(directory));
    const std::string file = directory + "/bench-fetch";
    PIPER_ASSIGN(
        const CommandResult made,
        session->connection().run(
            {"sh", "-c",
             fmt::format("head -c {} /dev/urandom > \"$0\" && sha256sum < \"$0\"", options.bytes),
             file}));
    if (made.exit_status != 0)
        return fail(ErrorCode::External, "cannot make a file of {} bytes on {}: {}", options.bytes,
                    options.session, made.error_output);
    FetchRace fetch(*session, file, made.output.substr(0, 64));
    const Result<Times> times = race(fetch, options.pairs);
    PIPER_TRY(session->connection().run({"rm", "-f", "--", file}));
    if (!times.ok()) return times.error();
    const auto rate = [&](const std::vector<double>& seconds) {
        return static_cast<double>(options.bytes) / 1e6 / median(seconds);
    };
    if (json)
        printJson({{"bytes", options.bytes},
                   {"pairs", options.pairs},
                   {"ours_seconds", times->ours},
                   {"scp_seconds", times->scp},
                   {"sftp_seconds", times->sftp},
                   {"ratio_to_better", times->ratio},
                   {"median_ratio_to_better", median(times->ratio)}});
    else
        fmt::print(
            "ours {:.0f} MB/s, scp {:.0f} MB/s, sftp {:.0f} MB/s; median of {} pairs "
            "against the better: {:.2f}\n",
            rate(times->ours), rate(times->scp), rate(times->sftp), options.pairs,
            median(times->ratio));
    return 0;
}

}  // namespace piper::app
