// SPDX-License-Identifier: Apache-2.0
#include "core/cost/published_calls.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/csv.h"

namespace piper {

namespace {

constexpr double kPriorDistance = 3.0;  ///< octaves at which the bare model takes part
constexpr double kOtherLibrary = 0.5;   ///< another version of the library that was asked for
constexpr double kOtherDevice = 0.5;    ///< another device of the family
constexpr double kSizePerOctave = 0.5;  ///< outside a curve's sizes
constexpr double kNearest = 0.02;       ///< keeps the weight of an exact match finite

double octaves(double value) {
    return value > 0.0 ? std::log2(value) : 0.0;
}

/// Of two logarithms, one of which may not be stated.
double apart(double a, double b) {
    return a > 0.0 && b > 0.0 ? std::abs(a - b) : 0.0;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> out;
    while (true) {
        const std::size_t end = text.find(at);
        out.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return out;
        text.remove_prefix(end + 1);
    }
}

/// One line: the curve's fields, then its points.
Status readLine(std::string_view line, std::vector<PublishedCall>& out) {
    const auto broken = [&] {
        return fail(ErrorCode::InvalidInput, "'{}' is not a line of published calls",
                    line.substr(0, 60));
    };
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() != 7) return broken();
    PublishedCall call;
    PIPER_ASSIGN(call.kind, parseEnum<CallKind>(fields[0], "kind of call"));
    call.library = std::string(fields[1]);
    call.device = std::string(fields[2]);
    const auto nodes = numberIn(fields[3]), ranks = numberIn(fields[4]), row = numberIn(fields[5]);
    if (!nodes || !ranks || !row || *nodes < 1 || *ranks < 2 || *row < 0) return broken();
    call.nodes = static_cast<std::int64_t>(*nodes);
    call.ranks = static_cast<std::int64_t>(*ranks);
    call.size.row_bytes = *row;
    for (const std::string_view point : split(fields[6], ' ')) {
        const std::size_t colon = point.find(':');
        if (colon == std::string_view::npos) return broken();
        const auto size = numberIn(point.substr(0, colon)),
                   time = numberIn(point.substr(colon + 1));
        if (!size || !time || *size <= 0 || *time <= 0) return broken();
        call.size.bytes = *size;
        call.time = microseconds(*time);
        out.push_back(call);
    }
    return {};
}

}  // namespace

std::string libraryFamily(std::string_view library) {
    const std::string name = lower(library);
    for (const char* known : {"hybridep", "uccl-ep", "mori-ep", "deepep", "rccl", "nccl", "uccl"})
        if (name.find(known) != std::string::npos) return known;
    return name;
}

PublishedCurves::PublishedCurves(std::span<const PublishedCall> calls) {
    CallPlace place;
    const PublishedCall* placed = nullptr;  // rows of one curve stand together: looked up once
    for (const PublishedCall& call : calls) {
        if (placed == nullptr || placed->device != call.device || placed->ranks != call.ranks ||
            placed->nodes != call.nodes)
            place = usualPlace(call.device, call.ranks, call.nodes);
        placed = &call;
        const double model = modelCall(call.kind, call.size, place).value;
        if (model <= 0.0 || call.time.value <= 0.0) continue;
        auto curve = std::find_if(m_curves.begin(), m_curves.end(), [&](const Curve& c) {
            return c.call.kind == call.kind && c.call.ranks == call.ranks &&
                   c.call.nodes == call.nodes && c.call.size.row_bytes == call.size.row_bytes &&
                   c.call.sms == call.sms && c.call.kernel_only == call.kernel_only &&
                   c.call.library == call.library && c.call.device == call.device;
        });
        if (curve == m_curves.end()) {
            m_curves.push_back({call,
                                libraryFamily(call.library),
                                place.family,
                                place.crossesNetwork(),
                                {},
                                axesOf(call)});
            curve = m_curves.end() - 1;
        }
        curve->points.push_back({std::log2(call.size.bytes), std::log2(call.time.value / model)});
    }
    for (Curve& curve : m_curves)
        std::stable_sort(curve.points.begin(), curve.points.end(),
                         [](const Point& a, const Point& b) { return a.log_size < b.log_size; });
    for (std::size_t i = 0; i < m_curves.size(); ++i) {
        const std::size_t at = slot(m_curves[i].call.kind, m_curves[i].family, m_curves[i].network);
        if (m_index.size() <= at) m_index.resize(at + 1);
        m_index[at].push_back(i);
    }
}

std::size_t PublishedCurves::slot(CallKind kind, LinkFamily family, bool network) {
    constexpr std::size_t kFamilies = static_cast<std::size_t>(LinkFamily::Cdna3) + 1;
    return (static_cast<std::size_t>(kind) * kFamilies + static_cast<std::size_t>(family)) * 2 +
           (network ? 1 : 0);
}

const PublishedCurves& PublishedCurves::bundled() {
    static const PublishedCurves curves = [] {
        const Result<std::vector<PublishedCall>> calls =
            readCalls(embeddedCalls("published_calls"));
        PIPER_CHECK(calls.ok());
        return PublishedCurves(*calls);
    }();
    return curves;
}

PublishedCurves::Axes PublishedCurves::axesOf(const PublishedCall& call) {
    return {octaves(static_cast<double>(call.ranks)), octaves(static_cast<double>(call.nodes)),
            octaves(call.size.row_bytes), octaves(call.sms)};
}

double PublishedCurves::distance(const Curve& curve, const PublishedCall& call, const Axes& axes,
                                 std::string_view mover) {
    const PublishedCall& own = curve.call;
    double d = std::abs(curve.axes.ranks - axes.ranks) + std::abs(curve.axes.nodes - axes.nodes) +
               apart(curve.axes.row, axes.row) + apart(curve.axes.sms, axes.sms);
    if (own.kernel_only != call.kernel_only) d += 1.0;
    if (own.device != call.device) d += kOtherDevice;
    if (!call.library.empty()) {
        // A library named without its release stands for all of them.
        if (call.library != mover && own.library != call.library) d += kOtherLibrary;
        if (curve.mover != mover) d += kOtherLibrary;
    }
    return d;
}

PublishedCurves::Match PublishedCurves::match(const PublishedCall& call) const {
    return match(call, usualPlace(call.device, call.ranks, call.nodes).crossesNetwork());
}

PublishedCurves::Match PublishedCurves::match(const PublishedCall& call,
                                              bool crosses_network) const {
    Match out;
    const std::size_t at_slot = slot(call.kind, linkFamily(call.device), crosses_network);
    if (at_slot >= m_index.size()) return out;
    const std::string mover = call.library.empty() ? std::string() : libraryFamily(call.library);
    const Axes axes = axesOf(call);
    // Libraries move rows in their own ways: another's curves stand in only where it has none.
    const bool own_curves = std::ranges::any_of(
        m_index[at_slot], [&](std::size_t i) { return m_curves[i].mover == mover; });
    for (const std::size_t i : m_index[at_slot]) {
        if (own_curves && m_curves[i].mover != mover) continue;
        const double d = distance(m_curves[i], call, axes, mover);
        const PublishedCall& own = m_curves[i].call;
        if (own.ranks == call.ranks && own.nodes == call.nodes && own.device == call.device)
            out.same_group = true;
        std::size_t at = out.count;
        if (out.count < out.near.size())
            ++out.count;
        else if (d >= out.near.back().distance)
            continue;
        else
            at = out.near.size() - 1;
        for (; at > 0 && out.near[at - 1].distance > d; --at) out.near[at] = out.near[at - 1];
        out.near[at] = {i, d};
    }
    return out;
}

PublishedCurves::Ratio PublishedCurves::ratio(const Match& match, double bytes) const {
    const double log_size = std::log2(bytes);
    double weights = 1.0 / (kPriorDistance * kPriorDistance * kPriorDistance), sum = 0.0;
    bool inside = false;
    for (std::size_t i = 0; i < match.count; ++i) {
        const std::vector<Point>& points = m_curves[match.near[i].curve].points;
        const double outside =
            std::max({0.0, points.front().log_size - log_size, log_size - points.back().log_size});
        const auto right =
            std::upper_bound(points.begin(), points.end(), log_size,
                             [](double value, const Point& p) { return value < p.log_size; });
        double value = 0.0;
        if (right == points.begin()) {
            value = points.front().log_ratio;
        } else if (right == points.end()) {
            value = points.back().log_ratio;
        } else {
            const Point& left = *(right - 1);
            const double width = right->log_size - left.log_size;
            value = std::lerp(left.log_ratio, right->log_ratio,
                              width > 0.0 ? (log_size - left.log_size) / width : 0.0);
        }
        const double d = match.near[i].distance + kSizePerOctave * outside + kNearest;
        const double weight = 1.0 / (d * d * d);
        weights += weight;
        sum += weight * value;
        inside =
            inside || (outside <= 1.0 && match.near[i].distance < kOtherLibrary + kOtherDevice);
    }
    return {std::exp2(sum / weights), !match.same_group || !inside};
}

PublishedCurves::Prediction PublishedCurves::predict(const PublishedCall& call) const {
    const CallPlace place = usualPlace(call.device, call.ranks, call.nodes);
    const Seconds model = modelCall(call.kind, call.size, place);
    const Ratio found = ratio(match(call, place.crossesNetwork()), call.size.bytes);
    return {model * found.value, found.extrapolated};
}

Result<std::vector<PublishedCall>> readCalls(std::string_view text) {
    std::vector<PublishedCall> out;
    for (const std::string_view line : split(text, '\n')) {
        if (line.empty() || line.front() == '#') continue;
        PIPER_TRY(readLine(line, out));
    }
    return out;
}

}  // namespace piper
