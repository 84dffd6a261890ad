// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "sessions/local_connection.h"
#include "sessions/sha256.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEmptySuffix = "-empty";
constexpr const char* kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Seconds of OpenSSH's program for the file, and for an empty one: what of that it needs to
/// connect, which our session has done already.
struct Peer {
    double whole = 0.0, connecting = 0.0;
    [[nodiscard]] double moving() const { return std::max(whole - connecting, 1e-9); }
};

/// One file fetched by ours and by OpenSSH's own programs, the hash of each result checked.
class FetchRace {
public:
    FetchRace(Session& session, std::string remote, std::string hash, TemporaryDirectory scratch)
        : m_session(session),
          m_remote(std::move(remote)),
          m_hash(std::move(hash)),
          m_scratch(std::move(scratch)) {}

    Result<double> ours() {
        return timed(m_hash, [&](const std::filesystem::path& to) {
            return m_session.connection().fetch(m_remote, to, {});
        });
    }
    Result<Peer> scp() { return peer({"scp", "-q", "-B"}); }
    Result<Peer> sftp() { return peer({"sftp", "-q", "-o", "BatchMode=yes"}); }

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

    Result<Peer> peer(const std::vector<std::string>& argv) {
        const auto fetch = [&](const std::string& remote) {
            return [this, argv, remote](const std::filesystem::path& to) {
                return run(argv, {host() + ":" + remote, to.string()});
            };
        };
        Peer out;
        PIPER_ASSIGN(out.connecting, timed(kEmptyHash, fetch(m_remote + kEmptySuffix)));
        PIPER_ASSIGN(out.whole, timed(m_hash, fetch(m_remote)));
        return out;
    }

    template <class Fetch>
    Result<double> timed(std::string_view expected, const Fetch& fetch) {
        const std::filesystem::path to = m_scratch.path() / "fetched";
        std::error_code ignored;
        std::filesystem::remove(to, ignored);
        const Clock::time_point begin = Clock::now();
        PIPER_TRY(fetch(to));
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        PIPER_ASSIGN(const std::string hash, sha256OfFile(to));
        if (hash != expected)
            return fail(ErrorCode::External, "what was fetched is not what was sent");
        return seconds;
    }

    Session& m_session;
    std::string m_remote, m_hash;
    TemporaryDirectory m_scratch;
};

struct Times {
    std::vector<double> ours, scp, sftp;
    std::vector<double> ratio;      ///< the better peer's moving time over ours
    std::vector<double> ratio_all;  ///< with its connecting
};

Result<Times> race(FetchRace& fetch, std::int64_t pairs) {
    Times t;
    PIPER_TRY(fetch.ours());  // warms the host's page cache
    for (std::int64_t i = 0; i < pairs; ++i) {
        PIPER_ASSIGN(const double ours, fetch.ours());
        PIPER_ASSIGN(const Peer scp, fetch.scp());
        PIPER_ASSIGN(const Peer sftp, fetch.sftp());
        t.ours.push_back(ours);
        t.scp.push_back(scp.moving());
        t.sftp.push_back(sftp.moving());
        t.ratio.push_back(std::min(scp.moving(), sftp.moving()) / ours);
        t.ratio_all.push_back(std::min(scp.whole, sftp.whole) / ours);
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
    PIPER_ASSIGN(TemporaryDirectory scratch, TemporaryDirectory::make());
    PIPER_ASSIGN(const std::string directory, session->directory());
    PIPER_TRY(session->connection().makeDirectory(directory));
    const std::string file = directory + "/bench-fetch";
    PIPER_ASSIGN(
        const CommandResult made,
        session->connection().run(
            {"sh", "-c",
             fmt::format("head -c {} /dev/urandom > \"$0\" && : > \"$0{}\" && sha256sum < \"$0\"",
                         options.bytes, kEmptySuffix),
             file}));
    if (made.exit_status != 0)
        return fail(ErrorCode::External, "cannot make a file of {} bytes on {}: {}", options.bytes,
                    options.session, made.error_output);
    FetchRace fetch(*session, file, made.output.substr(0, 64), std::move(scratch));
    const Result<Times> times = race(fetch, options.pairs);
    PIPER_TRY(session->connection().run({"rm", "-f", "--", file, file + kEmptySuffix}));
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
                   {"median_ratio_to_better", median(times->ratio)},
                   {"median_ratio_with_connecting", median(times->ratio_all)}});
    else
        fmt::print(
            "ours {:.0f} MB/s, scp {:.0f} MB/s, sftp {:.0f} MB/s, without connecting; median of {} "
            "pairs against the better: {:.2f} ({:.2f} to {:.2f}), with its connecting {:.2f}\n",
            rate(times->ours), rate(times->scp), rate(times->sftp), options.pairs,
            median(times->ratio), quantile(times->ratio, 0.0), quantile(times->ratio, 1.0),
            median(times->ratio_all));
    return 0;
}

}  // namespace piper::app
