// SPDX-License-Identifier: Apache-2.0
#include "core/cost/ratio_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace piper {

namespace {

constexpr std::size_t kNeighbours = 8;
constexpr std::uint32_t kLeaf = 6;
constexpr float kFar = 1.5F;     ///< octaves from every point: the model alone is nearer the truth
constexpr float kMargin = 0.5F;  ///< octaves beyond the box that still count as inside
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

float squaredDistance(const RatioField::Place& a, const RatioField::Place& b) {
    float sum = 0.0F;
    for (std::size_t i = 0; i < RatioField::kAxes; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

}  // namespace

/// The nearest points so far, sorted; one more than weighted: the last gives the radius.
struct RatioField::Nearest {
    const Place& place;
    std::uint32_t skipped = kNone;
    std::size_t count = 0;
    std::array<float, kNeighbours + 1> squared{};
    std::array<std::uint32_t, kNeighbours + 1> index{};

    [[nodiscard]] float worst() const {
        return count <= kNeighbours ? std::numeric_limits<float>::max() : squared[kNeighbours];
    }
    void offer(std::uint32_t i, float distance) {
        if (i == skipped || distance >= worst()) return;
        std::size_t at = count <= kNeighbours ? count++ : kNeighbours;
        for (; at > 0 && squared[at - 1] > distance; --at) {
            squared[at] = squared[at - 1];
            index[at] = index[at - 1];
        }
        squared[at] = distance;
        index[at] = i;
    }
};

RatioField::RatioField(std::vector<Point> points) : m_points(std::move(points)) {
    if (m_points.empty()) return;
    merge();
    m_low.fill(std::numeric_limits<float>::max());
    m_high.fill(std::numeric_limits<float>::lowest());
    for (const Point& p : m_points)
        for (std::size_t i = 0; i < kAxes; ++i) {
            m_low[i] = std::min(m_low[i], p.at[i]);
            m_high[i] = std::max(m_high[i], p.at[i]);
        }
    build(0, static_cast<std::uint32_t>(m_points.size()));
}

void RatioField::merge() {
    std::sort(m_points.begin(), m_points.end(),
              [](const Point& a, const Point& b) { return a.at < b.at; });
    std::vector<Point> merged;
    merged.reserve(m_points.size());
    for (std::size_t i = 0; i < m_points.size();) {
        std::size_t j = i;
        double sum = 0.0;
        for (; j < m_points.size() && m_points[j].at == m_points[i].at; ++j)
            sum += m_points[j].log_ratio;
        merged.push_back({m_points[i].at, sum / static_cast<double>(j - i), 0.0F});
        i = j;
    }
    m_points = std::move(merged);
}

void RatioField::build(std::uint32_t begin, std::uint32_t end) {
    const std::size_t self = m_nodes.size();
    m_nodes.push_back({begin, end, 0.0F, -1, 0});
    if (end - begin <= kLeaf) return;
    Place low, high;
    low.fill(std::numeric_limits<float>::max());
    high.fill(std::numeric_limits<float>::lowest());
    for (std::uint32_t i = begin; i < end; ++i)
        for (std::size_t a = 0; a < kAxes; ++a) {
            low[a] = std::min(low[a], m_points[i].at[a]);
            high[a] = std::max(high[a], m_points[i].at[a]);
        }
    std::size_t axis = 0;
    for (std::size_t a = 1; a < kAxes; ++a)
        if (high[a] - low[a] > high[axis] - low[axis]) axis = a;
    const std::uint32_t middle = begin + (end - begin) / 2;
    std::nth_element(m_points.begin() + begin, m_points.begin() + middle, m_points.begin() + end,
                     [axis](const Point& a, const Point& b) { return a.at[axis] < b.at[axis]; });
    m_nodes[self].split = m_points[middle].at[axis];
    m_nodes[self].axis = static_cast<std::int32_t>(axis);
    build(begin, middle);
    m_nodes[self].right = static_cast<std::uint32_t>(m_nodes.size());
    build(middle, end);
}

void RatioField::collect(Nearest& nearest) const {
    struct Pending {
        std::uint32_t node;
        float squared;  ///< distance to the subtree's box, as far as its splits tell
        Place gaps;     ///< by axis
    };
    std::array<Pending, 32> stack;
    std::size_t depth = 0;
    stack[depth++] = {0, 0.0F, {}};
    while (depth > 0) {
        Pending here = stack[--depth];
        if (here.squared >= nearest.worst()) continue;
        std::uint32_t at = here.node;
        while (m_nodes[at].axis >= 0) {
            const Node& node = m_nodes[at];
            const auto axis = static_cast<std::size_t>(node.axis);
            const float gap = nearest.place[axis] - node.split;
            const bool left = gap < 0.0F;
            Pending& other = stack[depth++];
            other = here;
            other.node = left ? node.right : at + 1;
            other.squared += gap * gap - here.gaps[axis] * here.gaps[axis];
            other.gaps[axis] = gap;
            at = left ? at + 1 : node.right;
        }
        for (std::uint32_t i = m_nodes[at].begin; i < m_nodes[at].end; ++i)
            nearest.offer(i, squaredDistance(m_points[i].at, nearest.place));
    }
}

RatioField::Value RatioField::weigh(const Nearest& nearest, const Place& place) const {
    const std::size_t used = std::min(nearest.count, kNeighbours);
    if (used == 0) return {};
    // Without a ninth point the radius lies beyond the last.
    const float radius = nearest.count > kNeighbours
                             ? std::sqrt(nearest.squared[kNeighbours]) * 1.0001F + 1e-6F
                             : std::sqrt(nearest.squared[used - 1]) * 1.5F + 1e-6F;
    double sum = 0.0, weights = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < used; ++i) {
        const double distance = std::sqrt(nearest.squared[i]);
        const double w = std::max(radius - distance, 0.0) / (radius * (distance + 1e-6));
        const Point& p = m_points[nearest.index[i]];
        sum += w * w * p.log_ratio;
        weights += w * w;
        squares += static_cast<double>(p.spread) * p.spread;
    }
    Value out;
    out.distance = std::sqrt(nearest.squared[0]);
    out.log_ratio = sum / weights;
    out.spread = std::sqrt(squares / static_cast<double>(used));
    out.outside = out.distance > kFar;
    for (std::size_t i = 0; i < kAxes; ++i)
        out.outside |= place[i] < m_low[i] - kMargin || place[i] > m_high[i] + kMargin;
    return out;
}

RatioField::Value RatioField::at(const Place& place) const {
    Nearest nearest{place};
    if (!m_nodes.empty()) collect(nearest);
    return weigh(nearest, place);
}

void RatioField::measureSpread() {
    for (std::uint32_t i = 0; i < m_points.size(); ++i) {
        Nearest nearest{m_points[i].at, i};
        collect(nearest);
        const Value others = weigh(nearest, m_points[i].at);
        m_points[i].spread = static_cast<float>(std::abs(others.log_ratio - m_points[i].log_ratio));
    }
}

}  // namespace piper
