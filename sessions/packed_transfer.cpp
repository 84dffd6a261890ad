// SPDX-License-Identifier: Apache-2.0
#include "sessions/packed_transfer.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <vector>

#include "sessions/display_text.h"
#include "sessions/shell_quote.h"
#include "sessions/ssh_exec.h"

namespace piper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPiece = 256 << 10;
constexpr int kPieces = 3;
/// A gain below this is not told from the noise of a rate.
constexpr double kClearGain = 0.8;
constexpr int kGzipWindow = 15 + 16;  ///< zlib's largest window, with gzip's header

/// The numbers in a line of text.
std::vector<double> numbersIn(std::string_view text) {
    std::vector<double> out;
    while (!text.empty()) {
        double value = 0;
        const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (fault == std::errc()) out.push_back(value);
        const std::size_t used =
            std::max<std::size_t>(1, static_cast<std::size_t>(end - text.data()));
        text.remove_prefix(std::min(used, text.size()));
    }
    return out;
}

class Unpacker {
public:
    Unpacker() { m_begun = inflateInit2(&m_stream, kGzipWindow) == Z_OK; }
    ~Unpacker() {
        if (m_begun) inflateEnd(&m_stream);
    }
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;

    /// False for what is no packed data.
    template <class Sink>
    Result<bool> feed(std::string_view packed, const Sink& sink) {
        m_stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
        m_stream.avail_in = static_cast<uInt>(packed.size());
        while (m_begun && !m_ended) {
            m_stream.next_out = reinterpret_cast<Bytef*>(m_buffer.data());
            m_stream.avail_out = static_cast<uInt>(m_buffer.size());
            const int code = inflate(&m_stream, Z_NO_FLUSH);
            if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return false;
            const std::size_t came = m_buffer.size() - m_stream.avail_out;
            if (came > 0) PIPER_TRY(sink(std::string_view(m_buffer.data(), came)));
            m_ended = code == Z_STREAM_END;
            if (m_stream.avail_out > 0) break;  // all of it was used
        }
        return m_begun;
    }

private:
    z_stream m_stream{};
    bool m_begun = false, m_ended = false;
    std::vector<char> m_buffer = std::vector<char>(1U << 17);
};

}  // namespace

bool packingPays(const PackingSample& sample, BytesPerSecond link) {
    if (link.value <= 0 || sample.packed.value <= 0) return false;
    const double plain = 1.0 / link.value;
    return std::max(sample.ratio / link.value, 1.0 / sample.packed.value) < kClearGain * plain;
}

std::optional<PackingSample> samplePacking(const std::shared_ptr<SshLink>& link,
                                           const std::string& path, std::int64_t begin,
                                           std::int64_t end, const std::stop_token& stop) {
    std::string pieces;
    for (int i = 0; i < kPieces; ++i)
        pieces += fmt::format("dd if=\"$f\" bs=65536 skip={} count={} 2>/dev/null; ",
                              (begin + (end - begin) * (2 * i + 1) / (2 * kPieces)) / 65536,
                              kPiece / 65536);
    // A date without nanoseconds prints whole seconds: then the way there and back counts as
    // packing.
    const Clock::time_point asked = Clock::now();
    const Result<CommandResult> r =
        runScript(link,
                  fmt::format("f={}; {{ {}}} | wc -c; date +%s%N; {{ {}}} | gzip -1 -c | wc -c; "
                              "date +%s%N\n",
                              shellQuote(path), pieces, pieces),
                  {}, stop);
    const double waited = std::chrono::duration<double>(Clock::now() - asked).count();
    if (!r.ok() || r->exit_status != 0) return std::nullopt;
    const std::vector<double> said = numbersIn(r->output);
    if (said.size() != 4 || said[0] <= 0 || said[2] <= 0) return std::nullopt;
    const double seconds = said[1] > 1e15 ? (said[3] - said[1]) * 1e-9 : 0.0;
    return PackingSample{said[2] / said[0],
                         BytesPerSecond(said[0] / (seconds > 0 ? seconds : waited))};
}

Status fetchPacked(const std::shared_ptr<SshLink>& link, const std::string& path,
                   std::int64_t begin, std::int64_t end,
                   const std::function<Status(std::string_view)>& sink,
                   const std::stop_token& stop) {
    PIPER_ASSIGN(const auto exec,
                 SshExec::start(link, fmt::format("tail -c +{} -- {} | head -c {} | gzip -1 -c\n",
                                                  begin + 1, shellQuote(path), end - begin)));
    PIPER_TRY(exec->closeInput());
    Unpacker unpacker;
    std::int64_t at = begin;
    const auto bounded = [&](std::string_view bytes) -> Status {
        at += static_cast<std::int64_t>(bytes.size());
        if (at > end)
            return fail(ErrorCode::External, "{} sent more than was asked for of {}",
                        link->target().address(), displayLine(path));
        return sink(bytes);
    };
    std::string said;
    for (bool going = true; going;) {
        std::string packed;
        PIPER_ASSIGN(going, exec->pump(packed, said, 1000));
        if (stop.stop_requested()) {
            PIPER_TRY(exec->end(2000));
            return fail(ErrorCode::Cancelled, "reading was stopped");
        }
        if (said.size() > 4096) said.resize(4096);
        const Result<bool> sound = unpacker.feed(packed, bounded);
        if (sound.ok() && *sound) continue;
        (void)exec->end(2000);
        if (!sound.ok()) return sound.error();
        return fail(ErrorCode::External, "{} packs {} to something else: {}",
                    link->target().address(), displayLine(path), displayLine(said, 200));
    }
    if (at == end) return {};
    return fail(ErrorCode::External, "{} packed {} of {} bytes of {}: {}", link->target().address(),
                at - begin, end - begin, displayLine(path), displayLine(said, 200));
}

}  // namespace piper
