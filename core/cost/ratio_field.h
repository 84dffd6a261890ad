// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace piper {

/// Scattered points over up to five logarithmic axes with the logarithm of a ratio each: what
/// measured points leave of a simple model. Between points the nearest eight are weighted by
/// distance (Shepard's weights with Franke and Little's finite radius), so a point comes back
/// exactly and the field is continuous up to which points are nearest. A k-d tree finds them.
class RatioField {
public:
    static constexpr std::size_t kAxes = 5;
    using Place = std::array<float, kAxes>;
    struct Point {
        Place at{};
        double log_ratio = 0.0;  ///< log2
        float spread = 0.0F;     ///< log2 error of the point when predicted from the others
    };
    struct Value {
        double log_ratio = 0.0;  ///< log2; 0 without points
        double spread = 0.0;     ///< root mean square of the neighbours' spreads
        double distance = 0.0;   ///< to the nearest point
        bool outside = true;     ///< half an octave beyond the points' box, or far from any
    };

    RatioField() = default;
    /// Equal places are merged (mean of the logarithms).
    explicit RatioField(std::vector<Point> points);

    /// Fills every point's spread by leaving it out once.
    void measureSpread();
    [[nodiscard]] Value at(const Place& place) const;
    [[nodiscard]] bool empty() const { return m_points.empty(); }
    [[nodiscard]] std::span<const Point> points() const { return m_points; }

private:
    struct Node {
        std::uint32_t begin = 0, end = 0;  ///< points of the subtree
        float split = 0.0F;
        std::int32_t axis = -1;   ///< -1: leaf
        std::uint32_t right = 0;  ///< the left child follows its parent
    };
    struct Nearest;

    void merge();
    void build(std::uint32_t begin, std::uint32_t end);
    void collect(Nearest& nearest) const;
    [[nodiscard]] Value weigh(const Nearest& nearest, const Place& place) const;

    std::vector<Point> m_points;  ///< in the tree's order
    std::vector<Node> m_nodes;
    Place m_low{}, m_high{};
};

}  // namespace piper
