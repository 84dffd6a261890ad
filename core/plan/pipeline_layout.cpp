// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's pipeline layout strings. Grammar:
//   layout = item {item};  item = ("E" | "t" | "m" | "L" | "|" | "(" layout ")") ["*" number]
// It is expanded to a plain string first, then cut at the bars.
#include <algorithm>
#include <charconv>

#include "core/plan/layout.h"

namespace piper {
namespace {

constexpr std::size_t kMaxLength = 1 << 16;

class Expander {
public:
    explicit Expander(std::string_view text) : m_text(text) {}

    Result<std::string> run() {
        PIPER_ASSIGN(std::string out, sequence(0));
        if (m_at < m_text.size()) return wrong("')' without '('");
        return out;
    }

private:
    [[nodiscard]] Error wrong(std::string_view what) const {
        return fail(ErrorCode::InvalidInput, "pipeline layout \"{}\", character {}: {}", m_text,
                    m_at + 1, what);
    }

    Result<std::string> sequence(int depth) {
        if (depth > 8) return wrong("more than 8 brackets inside each other");
        std::string out;
        while (m_at < m_text.size() && m_text[m_at] != ')') {
            const char c = m_text[m_at];
            if (c == ',' || c == ' ') {
                ++m_at;
                continue;
            }
            PIPER_ASSIGN(const std::string item, one(c, depth));
            PIPER_ASSIGN(const std::size_t times, repeat());
            if (out.size() + item.size() * times > kMaxLength)
                return wrong("more than 65536 layers and stages");
            for (std::size_t i = 0; i < times; ++i) out += item;
        }
        return out;
    }

    Result<std::string> one(char c, int depth) {
        if (c == '(') {
            ++m_at;
            PIPER_ASSIGN(std::string inner, sequence(depth + 1));
            if (m_at >= m_text.size()) return wrong("'(' without ')'");
            ++m_at;
            return inner;
        }
        if (std::string_view("EtmL|").find(c) == std::string_view::npos)
            return wrong(fmt::format("'{}' is none of E, t, m, L, |, (, ), *", c));
        ++m_at;
        return std::string(1, c);
    }

    Result<std::size_t> repeat() {
        if (m_at >= m_text.size() || m_text[m_at] != '*') return std::size_t{1};
        ++m_at;
        std::size_t times = 0;
        const char* begin = m_text.data() + m_at;
        const auto [end, error] = std::from_chars(begin, m_text.data() + m_text.size(), times);
        if (error != std::errc() || times < 1 || times > kMaxLength)
            return wrong("expected a count between 1 and 65536 after '*'");
        m_at += static_cast<std::size_t>(end - begin);
        return times;
    }

    std::string_view m_text;
    std::size_t m_at = 0;
};

/// Adds one letter. Returns what is wrong with its place, empty when nothing is.
std::string add(PipelineChunk& chunk, char c, bool any_before) {
    if (chunk.loss) return "nothing follows the loss L in its chunk";
    switch (c) {
        case 'E':
            if (any_before) return "the embedding E stands once, before everything else";
            chunk.embedding = true;
            return {};
        case 't':
            if (chunk.mtp_layers > 0) return "a layer t stands before the multi-token layers m";
            ++chunk.layers;
            return {};
        case 'm':
            ++chunk.mtp_layers;
            return {};
        default:
            chunk.loss = true;
            return {};
    }
}

std::string repeated(const std::string& letter, std::int64_t times) {
    if (times <= 3) {
        std::string out;
        for (std::int64_t i = 0; i < times; ++i) out += letter;
        return out;
    }
    return fmt::format("{}*{}", letter, times);
}

}  // namespace

Result<std::vector<PipelineChunk>> splitPipelineLayout(std::string_view text) {
    PIPER_ASSIGN(const std::string expanded, Expander(text).run());
    std::vector<PipelineChunk> chunks(1);
    bool any = false;
    for (const char c : expanded) {
        if (c == '|') {
            chunks.emplace_back();
            continue;
        }
        const std::string wrong = add(chunks.back(), c, any);
        any = true;
        if (!wrong.empty())
            return fail(ErrorCode::InvalidInput, "pipeline layout \"{}\", chunk {}: {}", text,
                        chunks.size(), wrong);
    }
    return chunks;
}

std::vector<Error> pipelineLayoutFaults(const std::vector<PipelineChunk>& chunks,
                                        std::string_view text) {
    std::vector<Error> faults;
    std::size_t losses = 0, predicting = chunks.size();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const PipelineChunk& c = chunks[i];
        losses += c.loss ? 1 : 0;
        if (c.layers > 0 && predicting < i)
            faults.push_back(fail(ErrorCode::InvalidInput,
                                  "pipeline layout \"{}\": chunk {} of {} has layers t after the "
                                  "multi-token layers m of chunk {}",
                                  text, i + 1, chunks.size(), predicting + 1));
        if (c.mtp_layers > 0) predicting = std::min(predicting, i);
        if (!c.embedding && c.layers == 0 && c.mtp_layers == 0 && !c.loss)
            faults.push_back(fail(ErrorCode::InvalidInput,
                                  "pipeline layout \"{}\": chunk {} of {} is empty; a stage "
                                  "without work waits forever",
                                  text, i + 1, chunks.size()));
    }
    if (!chunks.front().embedding)
        faults.push_back(fail(ErrorCode::InvalidInput,
                              "pipeline layout \"{}\": the first chunk lacks the embedding E",
                              text));
    if (losses != 1 || !chunks.back().loss)
        faults.push_back(fail(
            ErrorCode::InvalidInput,
            "pipeline layout \"{}\": the loss L stands once, at the end of the last chunk", text));
    return faults;
}

Result<std::vector<PipelineChunk>> parsePipelineLayout(std::string_view text) {
    PIPER_ASSIGN(std::vector<PipelineChunk> chunks, splitPipelineLayout(text));
    std::vector<Error> faults = pipelineLayoutFaults(chunks, text);
    if (!faults.empty()) return std::move(faults.front());
    return chunks;
}

bool predictionHasOwnChunk(const std::vector<std::int64_t>& stage_layers) {
    const std::size_t n = stage_layers.size();
    return n > 2 && stage_layers[n - 1] == 0 && stage_layers[n - 2] == 0 && stage_layers[n - 3] > 0;
}

std::string pipelineLayoutText(const std::vector<std::int64_t>& stage_layers,
                               std::int64_t mtp_layers) {
    std::string out = "E";
    const std::size_t n = stage_layers.size();
    const bool own_chunk = mtp_layers > 0 && predictionHasOwnChunk(stage_layers);
    for (std::size_t i = 0; i < n;) {
        const std::string layers = repeated("t", stage_layers[i]);
        std::size_t same = i + 1;
        // The last chunk carries the loss, so it is never part of a repeat.
        while (same + 1 < n && stage_layers[same] == stage_layers[i]) ++same;
        const bool predicts = own_chunk && i + 2 == n;
        const std::size_t times = i == 0 || i + 1 == n ? 1 : same - i;
        if (predicts)
            out += repeated("m", mtp_layers) + "|";
        else if (i + 1 == n)
            out += layers;
        else if (times > 1)
            out += fmt::format("({}|)*{}", layers, times);
        else
            out += layers + "|";
        i += times;
    }
    return out + (own_chunk ? "" : repeated("m", mtp_layers)) + "L";
}

}  // namespace piper
